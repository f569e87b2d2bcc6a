// Collectives between threads against the copy bound, in one run. Prints a line of JSON for
// each; asserts nothing.
//
//   perf_collective_speed [RUNS]
//
// Goal: at least 80 % of the bound, 64 MiB of float32 between two ranks. The bound of a collective
// is the time that as many threads need for plain copies (memcpy) which move as many bytes, read
// and written, as its arithmetic has to (exec/comm/collective.h). Best of RUNS (default 30) each,
// taken in turns.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <limits>
#include <thread>
#include <vector>

#include "exec/comm/thread_group.h"
#include "exec/memory/slab.h"

namespace zplan::exec {
namespace {

constexpr double kGoal = 0.8;
constexpr int kRanks = 2;
constexpr std::int64_t kMib = 1 << 20;
constexpr std::int64_t kBytes = 64 * kMib;

using Body = std::function<void(int rank)>;

// Seconds of the slowest of the ranks, which start together.
double time_of(const Body& body) {
  StopSignal signal;
  Barrier start(kRanks, signal);
  std::array<double, kRanks> seconds{};
  {
    std::vector<std::jthread> threads;
    for (int rank = 0; rank < kRanks; ++rank) {
      threads.emplace_back([&, rank] {
        const TimePoint begin = start.arrive_and_wait();
        body(rank);
        const auto end = std::chrono::steady_clock::now();
        seconds[static_cast<std::size_t>(rank)] =
            std::chrono::duration<double>(end - begin).count();
      });
    }
  }
  return *std::max_element(seconds.begin(), seconds.end());
}

struct Memory {
  Slab a{Bytes{kBytes}}, b{Bytes{kBytes}};
};

struct Row {
  CollectiveKind kind;
  std::int64_t moved;  // bytes read and written by one rank, in place
};

void measure(const Row& row, std::array<Memory, kRanks>& memory, int runs) {
  StopSignal signal;
  ThreadGroup group(kRanks, signal);
  const std::int64_t part = kBytes / kRanks;
  const bool gathers = row.kind == CollectiveKind::kAllGather;
  const bool scatters = row.kind == CollectiveKind::kReduceScatter;
  const std::int64_t own = gathers || scatters ? part : kBytes;
  const Body collective = [&](int rank) {
    std::byte* data = memory[static_cast<std::size_t>(rank)].a.data();
    std::byte* mine = data + rank * part;
    group.run(rank, {.kind = row.kind,
                     .dtype = DType::kF32,
                     .elements = own / 4,
                     .input = gathers ? mine : data,
                     .output = scatters ? mine : data});
  };
  // A copy of n bytes moves 2 n.
  const Body copy = [&](int rank) {
    Memory& own_memory = memory[static_cast<std::size_t>(rank)];
    for (std::int64_t left = row.moved / 2; left > 0; left -= kBytes) {
      std::memcpy(own_memory.b.data(), own_memory.a.data(),
                  static_cast<std::size_t>(std::min(left, kBytes)));
    }
  };
  double best = std::numeric_limits<double>::infinity(), bound = best;
  for (int i = 0; i < runs; ++i) {
    best = std::min(best, time_of(collective));
    bound = std::min(bound, time_of(copy));
  }
  fmt::print(
      "{{\"what\": \"{} of {} MiB, {} ranks, copy bound\", \"time_s\": {:.5f}, \"bound_s\": "
      "{:.5f}, "
      "\"runs\": {}, \"ratio\": {:.3f}, \"goal\": {:.2f}}}\n",
      name(row.kind), kBytes / kMib, kRanks, best, bound, runs, bound / best, kGoal);
}

void run(int runs) {
  std::array<Memory, kRanks> memory;
  for (Memory& m : memory) {
    std::memset(m.a.data(), 0, kBytes);
    std::memset(m.b.data(), 0, kBytes);
  }
  constexpr std::int64_t kPart = kBytes / kRanks;
  for (const Row& row : {Row{CollectiveKind::kAllReduce, 2 * kBytes},
                         Row{CollectiveKind::kAllGather, 2 * (kBytes - kPart)},
                         Row{CollectiveKind::kReduceScatter, kBytes + kPart}})
    measure(row, memory, runs);
}

}  // namespace
}  // namespace zplan::exec

int main(int argc, char** argv) { zplan::exec::run(argc > 1 ? std::atoi(argv[1]) : 30); }
