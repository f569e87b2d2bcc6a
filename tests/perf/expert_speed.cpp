// Routing and grouped products of a mixture of experts, in float, as the CPU executor runs them,
// against what they must at least do, in one run: one line of JSON.
//
//   perf_expert_speed THREADS
//
//   products  rows of all experts with their matrices, against one product of as many rows
//   routing   choice, rows and both ways of tokens, against copies of as many bytes
//
// Goals: products at least 75 % of the rate of the one product, with as many rows for each expert
// as for any other and with rows as a router that knows nothing gives them; dispatch and combine at
// least half the rate of the copies.
#include <omp.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <vector>

#include "exec/cpu/kernels/experts.h"
#include "exec/cpu/kernels/grouped_gemm.h"
#include "exec/cpu/kernels/kernel_support.h"

namespace zplan::exec::cpu {
namespace {

constexpr double kProductGoal = 0.75, kRoutingGoal = 0.5;
constexpr int kRounds = 9;
constexpr std::int64_t kTokens = 4096, kExperts = 16, kChoices = 2, kHidden = 512, kWidth = 512;
constexpr std::int64_t kRows = kTokens * kChoices;

template <typename Work>
double seconds_of(const Work& work) {
  std::vector<double> times;
  for (int round = 0; round < kRounds; ++round) {
    const auto start = std::chrono::steady_clock::now();
    work();
    times.push_back(
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  std::sort(times.begin(), times.end());
  return times[times.size() / 2];
}

std::vector<float> floats(std::int64_t n) {
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  std::vector<float> values(static_cast<std::size_t>(n));
  for (float& value : values) value = normal(random);
  return values;
}

struct Routing {
  std::vector<float> logits = floats(kTokens * kExperts), weights = floats(kRows);
  std::vector<std::int32_t> chosen = std::vector<std::int32_t>(kRows), rows = chosen;
  std::vector<std::int32_t> counts = std::vector<std::int32_t>(kExperts);
  double dropped = 0;

  void run() {
    const RouterShape shape{
        .tokens = kTokens, .experts = kExperts, .choices = kChoices, .renormalised = true};
    choose_experts<float>(shape, {chosen.data(), weights.data(), logits.data(), nullptr});
    place_rows({rows.data(),
                counts.data(),
                &dropped,
                chosen.data(),
                kTokens,
                kChoices,
                1,
                kExperts,
                {1},
                0,
                kRows,
                false});
  }
};

double products(const std::vector<std::int32_t>& counts) {
  const GroupedShape shape{1, kExperts, kRows, kHidden, kWidth};
  const auto x = floats(kRows * kHidden), w = floats(kExperts * kHidden * kWidth);
  auto y = floats(kRows * kWidth);
  std::vector<std::byte> scratch(std::size_t{8} << 20);  // of a lane of the kernel sets
  void* at = scratch.data();
  std::size_t room = scratch.size();
  std::align(kScratchAlignBytes, room - kScratchAlignBytes, at, room);
  const Scratch space{static_cast<std::byte*>(at), room};
  const GemmShape all{.m = kRows, .n = kWidth, .k = kHidden};
  GemmCache cache;
  cache.prepare<float>(all);
  const double whole = seconds_of([&] {
    cache.run<float>(all, {x.data(), w.data(), y.data()}, space);
  });
  return whole / seconds_of([&] {
           grouped_forward(shape, y.data(), x.data(), w.data(), counts.data(), false, space);
         });
}

double moves(Routing& routing) {
  const RowShape shape{kTokens, kChoices, 1, kExperts, kRows, kHidden};
  auto x = floats(kTokens * kHidden), sent = floats(kRows * kHidden), copy = sent;
  const double ways = seconds_of([&] {
    dispatch_rows(shape, sent.data(), x.data(), routing.rows.data(), routing.counts.data());
    combine_rows(shape, x.data(), sent.data(), routing.rows.data(), routing.weights.data(), false);
  });
  // Rows written once and read once.
  const double copies = seconds_of([&] {
    for (int way = 0; way < 2; ++way)
      for_rows(kRows, kHidden, [&](std::int64_t from, std::int64_t to) {
        std::memcpy(copy.data() + from * kHidden, sent.data() + from * kHidden,
                    static_cast<std::size_t>((to - from) * kHidden) * sizeof(float));
      });
  });
  return copies / ways;
}

int run(int threads) {
  omp_set_num_threads(threads);
  Routing routing;
  const double choice = seconds_of([&] { routing.run(); });
  const double even =
      products(std::vector<std::int32_t>(kExperts, static_cast<std::int32_t>(kRows / kExperts)));
  const double routed = products(routing.counts), moved = moves(routing);
  const bool met = even >= kProductGoal && routed >= kProductGoal && moved >= kRoutingGoal;
  std::printf(
      "{\"name\": \"experts\", \"threads\": %d, \"products_even\": %.3f, \"products_routed\": "
      "%.3f, \"moves\": %.3f, \"choice_ns_per_token\": %.1f, \"met\": %s}\n",
      threads, even, routed, moved, 1e9 * choice / static_cast<double>(kTokens),
      met ? "true" : "false");
  return met ? 0 : 1;
}

}  // namespace
}  // namespace zplan::exec::cpu

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: perf_expert_speed THREADS\n");
    return 2;
  }
  return zplan::exec::cpu::run(std::atoi(argv[1]));
}
