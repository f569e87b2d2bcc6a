#include "exec/comm/gate.h"

#include <fmt/format.h>
#include <poll.h>

#include <algorithm>
#include <thread>
#include <utility>
#include <vector>

#include "planner/core/error.h"

namespace zplan::exec {

Gate::Gate(Socket listener, GateOptions options)
    : listener_(std::move(listener)), options_(std::move(options)) {}

std::optional<Gate::Guest> Gate::admit(TimePoint deadline) {
  while (true) {
    accept_all();
    if (auto guest = hear()) return guest;
    if (milliseconds_until(deadline, 1) == 0) return std::nullopt;
    wait(deadline);
  }
}

// Every one in turn, up to the first that has proven itself.
std::optional<Gate::Guest> Gate::hear() {
  for (std::size_t i = 0; i < waiting_.size();) {
    Waiting& waiting = waiting_[i];
    const GreetingEnd end = waiting.greeting.advance();
    const bool is_late = end == GreetingEnd::kUnderWay && milliseconds_until(waiting.until, 1) == 0;
    if (end == GreetingEnd::kUnderWay && !is_late) {
      ++i;
      continue;
    }
    Waiting gone = std::move(waiting);
    waiting_.erase(waiting_.begin() + static_cast<std::ptrdiff_t>(i));
    if (end == GreetingEnd::kProven) return Guest{gone.greeting.caller(), gone.greeting.take()};
    if (is_late || end == GreetingEnd::kStranger) turn_away(gone);
  }
  return std::nullopt;
}

bool Gate::has_room() const {
  return !is_full() || milliseconds_until(waiting_.front().sure, 1) == 0;
}

// As many as may wait, so that a flood of them does not keep it from hearing those.
void Gate::accept_all() {
  for (std::size_t count = 0; count < options_.most_waiting && has_room(); ++count) {
    if (is_full()) {
      if (!is_readable(listener_)) return;
      turn_away(waiting_.front());
      waiting_.pop_front();
    }
    std::optional<Socket> socket;
    try {
      socket = accept(listener_, TimePoint{});
    } catch (const Error&) {  // no descriptor is left
      if (waiting_.empty()) throw;
      turn_away(waiting_.front());
      waiting_.pop_front();
      continue;
    }
    if (!socket) return;
    waiting_.push_back({GateGreeting(std::move(*socket), options_.key, options_.purpose),
                        after(options_.moment), after(options_.patience)});
  }
}

void Gate::wait(TimePoint deadline) {
  std::vector<pollfd> waits{{has_room() ? listener_.descriptor() : -1, POLLIN, 0}};
  for (const Waiting& waiting : waiting_)
    waits.push_back({waiting.greeting.descriptor(), POLLIN, 0});
  if (!waiting_.empty()) deadline = std::min(deadline, waiting_.front().until);
  if (!has_room()) deadline = std::min(deadline, waiting_.front().sure);
  constexpr int kLong = 1000;  // milliseconds
  ::poll(waits.data(), waits.size(), milliseconds_until(deadline, kLong));
}

void Gate::turn_away(const Waiting& waiting) {
  if (options_.on_stranger) options_.on_stranger(waiting.greeting.other_address());
}

namespace {

constexpr Seconds kAttempt{10};
constexpr auto kPause = std::chrono::milliseconds(50);  // between attempts

// Why an attempt failed that the patience is for.
std::string refusal_of(bool has_key) {
  return has_key ? "who answers there does not know this job's token; all processes need the same "
                   "ZPLAN_JOB_TOKEN, or another job uses this port"
                 : "no job token was found; set ZPLAN_JOB_TOKEN to the same random text for all "
                   "processes";
}

// The attempts of one call.
class Attempts {
 public:
  Attempts(const GateCall& call, TimePoint deadline) : call_(call), deadline_(deadline) {}

  // Closed when it failed.
  Socket make(const std::function<void()>& before_retry) {
    Socket socket = connect(before_retry);
    const std::string key = call_.key();
    const GreetingEnd end = key.empty() ? GreetingEnd::kStranger
                                        : greet(socket, key, call_.purpose, call_.caller,
                                                std::min(deadline_, after(kAttempt)));
    if (end == GreetingEnd::kProven) return socket;
    if (end == GreetingEnd::kStranger) refuse(refusal_of(!key.empty()));
    if (std::chrono::steady_clock::now() + kPause >= deadline_)
      fail(ExitCode::kDevice, refusal_.empty() ? "no answer" : refusal_);
    return {};
  }

 private:
  // Once it was refused, that says more than that nobody listens any more.
  Socket connect(const std::function<void()>& before_retry) const {
    try {
      return connect_to(call_.address, call_.port, deadline_, before_retry);
    } catch (const Error& error) {
      if (!refusal_.empty()) fail(error.code(), refusal_);
      throw;
    }
  }

  void refuse(std::string why) {
    if (refusal_.empty()) since_ = std::chrono::steady_clock::now();
    refusal_ = std::move(why);
    if (seconds_since(since_) > call_.patience) fail(ExitCode::kBadInput, refusal_);
  }

  [[noreturn]] void fail(ExitCode code, const std::string& why) const {
    throw Error(code, fmt::format("no connection to {}:{}: {}", call_.address, call_.port, why));
  }

  const GateCall& call_;
  TimePoint deadline_, since_;
  std::string refusal_;
};

}  // namespace

Socket call_gate(const GateCall& call, TimePoint deadline,
                 const std::function<void()>& before_retry) {
  Attempts attempts(call, deadline);
  while (true) {
    Socket socket = attempts.make(before_retry);
    if (socket.is_open()) return socket;
    std::this_thread::sleep_for(kPause);
    if (before_retry) before_retry();
  }
}

}  // namespace zplan::exec
