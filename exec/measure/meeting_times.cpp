#include "exec/measure/meeting_times.h"

#include <algorithm>
#include <barrier>
#include <chrono>
#include <functional>
#include <thread>
#include <vector>

#include "exec/comm/channel.h"
#include "exec/comm/collective.h"
#include "exec/comm/thread_group.h"
#include "exec/measure/cold_timing.h"
#include "exec/schedule/progress.h"
#include "planner/program/job/collectives.h"

namespace zplan::exec {
namespace {

constexpr int kMostMeetings = 50;
constexpr int kHops = 400;

double since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// Median time from when all members set out until the last one is done; `act` is one member's part.
// The members sleep for each other in between, as lanes do.
double together(int members, const Effort& effort, const std::function<void(int member)>& act) {
  Caches caches;
  std::vector<double> times;
  std::chrono::steady_clock::time_point start;
  double spent = 0;
  bool goes_on = true;
  StopSignal signal;
  Barrier set_out(members, signal), done(members, signal);
  const auto drive = [&](int member) {
    while (true) {
      if (member == 0) {
        caches.evict();
        start = std::chrono::steady_clock::now();
      }
      set_out.arrive_and_wait();
      act(member);
      const auto end = done.arrive_and_wait();
      if (member == 0) {
        times.push_back(std::chrono::duration<double>(end - start).count());
        spent += since(start);
        goes_on = std::ssize(times) <= effort.batches ||
                  (spent < effort.seconds && std::ssize(times) < kMostMeetings);
      }
      set_out.arrive_and_wait();
      if (!goes_on) return;
    }
  };
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < members; ++i) threads.emplace_back(drive, i);
  }
  times.erase(times.begin());  // the first one touches its memory
  return median_of(std::move(times));
}

}  // namespace

double MeetingTimes::collective(CollectiveKind kind, int ranks, std::int64_t bytes) const {
  const auto size = static_cast<std::size_t>(bytes);
  StopSignal signal;
  ThreadGroup group(ranks, signal);
  std::vector<std::vector<std::byte>> in(static_cast<std::size_t>(ranks)), out = in;
  for (auto* buffers : {&in, &out})
    for (auto& buffer : *buffers) buffer.resize(size);
  const std::int64_t whole = bytes / static_cast<std::int64_t>(sizeof(float));
  const std::int64_t elements = is_cut(kind) ? whole / ranks : whole;
  return together(ranks, effort_, [&](int member) {
    const auto i = static_cast<std::size_t>(member);
    group.run(member,
              {.kind = kind, .elements = elements, .input = in[i].data(), .output = out[i].data()});
  });
}

double MeetingTimes::transfer(std::int64_t bytes) const {
  StopSignal signal;
  Channel channel(signal);
  std::vector<std::byte> from(static_cast<std::size_t>(bytes)), to = from;
  return together(2, effort_, [&](int member) {
    if (member == 0)
      channel.send(from.data(), Bytes{bytes});
    else
      channel.receive(to.data(), Bytes{bytes});
  });
}

double MeetingTimes::wake() const {
  StopSignal signal;
  Flag flags[2];
  Progress first(signal, flags[0], false), second(signal, flags[1], false);
  std::vector<double> times;
  std::jthread other([&] {
    for (int i = 1; i <= kHops; ++i) {
      first.wait_for(i);
      second.advance();
    }
  });
  for (int i = 1; i <= kHops; ++i) {
    const auto start = std::chrono::steady_clock::now();
    first.advance();
    second.wait_for(i);
    times.push_back(since(start) / 2);
  }
  return median_of(std::move(times));
}

double MeetingTimes::operation() const {
  StopSignal signal;
  Flag flag;
  Progress progress(signal, flag, false);
  constexpr int kTimes = 10000;
  std::chrono::steady_clock::time_point last;
  const double all = seconds_of([&] {
    for (int i = 0; i < kTimes; ++i) {
      progress.wait_for(i);
      last = std::max(last, std::chrono::steady_clock::now());
      progress.advance();
      last = std::max(last, std::chrono::steady_clock::now());
    }
  });
  return all / kTimes;
}

}  // namespace zplan::exec
