#include "exec/measure/cold_timing.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>

namespace zplan::exec {
namespace {

constexpr std::int64_t kLeastCache = std::int64_t{16} << 20;  // [assumed] where nobody says
constexpr std::int64_t kMostCache = std::int64_t{64} << 20;   // [assumed] more takes too long
constexpr std::size_t kLine = 64;
constexpr int kMostCalls = 25;

std::size_t cache_bytes() {
  const std::int64_t said = sysconf(_SC_LEVEL3_CACHE_SIZE);
  return static_cast<std::size_t>(std::clamp(said, kLeastCache, kMostCache));
}

}  // namespace

Caches::Caches() : other_(cache_bytes(), std::byte{1}) {}

void Caches::evict() {
  const volatile std::byte* other = other_.data();
  for (std::size_t i = 0; i < other_.size(); i += kLine) static_cast<void>(other[i]);
}

double seconds_of(const std::function<void()>& call) {
  const auto start = std::chrono::steady_clock::now();
  call();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

double median_of(std::vector<double> values) {
  const auto middle = values.begin() + std::ssize(values) / 2;
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

double cold_seconds(Caches& caches, const std::function<void()>& warm,
                    const std::function<void()>& call, const Effort& effort) {
  call();  // the first one may be slower
  std::vector<double> times;
  double spent = 0;
  while (std::ssize(times) < effort.batches ||
         (spent < effort.seconds && std::ssize(times) < kMostCalls)) {
    spent += seconds_of([&] {
      caches.evict();
      warm();
    });
    times.push_back(seconds_of(call));
    spent += times.back();
  }
  return median_of(std::move(times));
}

}  // namespace zplan::exec
