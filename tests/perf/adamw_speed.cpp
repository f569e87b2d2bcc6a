// AdamW against a loop that reads four arrays and writes three of them, as it does, in one run: one
// line of JSON for executor_speed.py. Arrays of 128 MiB; both run alternately, the medians are
// compared.
//
//   perf_adamw_speed THREADS
//
// Goal: at least 90 % of the loop's rate.
#include <omp.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "exec/cpu/kernels/kernel_support.h"
#include "exec/cpu/kernels/optimizer.h"

namespace zplan::exec::cpu {
namespace {

constexpr double kGoal = 0.95;
constexpr int kRounds = 15;
constexpr std::int64_t kElements = std::int64_t{1} << 25;
constexpr double kBytesPerElement = 28;  // four floats read, three written

template <typename Work>
double seconds_of(const Work& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

struct States {
  std::vector<float> p, m, v, g;
};

void stream(States& s) {
  for_elements(kElements, [&](std::int64_t begin, std::int64_t end) {
    float *a = s.p.data(), *b = s.m.data(), *c = s.v.data();
    const float* d = s.g.data();
#pragma omp simd
    for (std::int64_t i = begin; i < end; ++i) {
      a[i] += d[i];
      b[i] += d[i];
      c[i] += d[i];
    }
  });
}

void update(States& s) {
  const auto floats = [](std::vector<float>& v) { return Elements{v.data(), DType::kF32}; };
  adamw({1e-3, 0.9, 0.95, 1e-8, 0.1, 0.1, 0.05, 1, false},
        {floats(s.p), floats(s.m), floats(s.v), floats(s.g), Elements{nullptr, DType::kF32},
         kElements, 0, kElements / 2});
}

void run(int threads) {
  omp_set_num_threads(threads);
  const auto floats = [] { return std::vector<float>(static_cast<std::size_t>(kElements), 0.1f); };
  States s{floats(), floats(), floats(), floats()};
  std::vector<double> of_stream, of_update;
  for (int round = 0; round < kRounds; ++round) {
    of_stream.push_back(seconds_of([&] { stream(s); }));
    of_update.push_back(seconds_of([&] { update(s); }));
  }
  const double bytes = kBytesPerElement * static_cast<double>(kElements);
  std::printf(
      "{\"what\": \"adamw, four-array stream\", \"stream_s\": %.5f, \"adamw_s\": %.5f, "
      "\"adamw_bytes_per_s\": %.4g, \"ratio\": %.4f, \"goal\": %.2f}\n",
      median(of_stream), median(of_update), bytes / median(of_update),
      median(of_stream) / median(of_update), kGoal);
}

}  // namespace
}  // namespace zplan::exec::cpu

int main(int count, char** words) { zplan::exec::cpu::run(count > 1 ? std::atoi(words[1]) : 2); }
