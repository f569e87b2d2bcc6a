// What the tests of the CPU kernels share: scratch of an exact size and seeded random values.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

#include "exec/cpu/kernels/scratch.h"

namespace zplan::exec::cpu {

// Aligned scratch of exactly the size a kernel asked for, so that a kernel that needs more aborts.
class Workspace {
 public:
  explicit Workspace(Bytes size)
      : lines_(static_cast<std::size_t>(ceil_div(size.value, kScratchAlignBytes))),
        size_(static_cast<std::size_t>(size.value)) {}
  Scratch span() { return {reinterpret_cast<std::byte*>(lines_.data()), size_}; }

 private:
  struct alignas(kScratchAlignBytes) Line {
    std::byte bytes[kScratchAlignBytes];
  };
  std::vector<Line> lines_;
  std::size_t size_;
};

// n values in [-size, size].
template <typename T>
std::vector<T> random_values(std::int64_t n, unsigned seed, double size = 1.0) {
  std::mt19937 engine(seed);
  std::uniform_real_distribution<double> uniform(-size, size);
  std::vector<T> values(static_cast<std::size_t>(n));
  for (T& value : values) value = static_cast<T>(uniform(engine));
  return values;
}

// n equal values; the default is one that no kernel under test produces.
template <typename T>
std::vector<T> buffer(std::int64_t n, double value = 77.0) {
  return std::vector<T>(static_cast<std::size_t>(n), static_cast<T>(value));
}

// Equal up to `units` units in the last place of max(1, |expected|).
template <typename T>
void expect_near(const std::vector<T>& actual, const std::vector<double>& expected, double units) {
  ASSERT_EQ(actual.size(), expected.size());
  for (std::size_t i = 0; i < actual.size(); ++i) {
    const double tolerance =
        units * std::numeric_limits<T>::epsilon() * std::max(1.0, std::abs(expected[i]));
    ASSERT_NEAR(double{actual[i]}, expected[i], tolerance) << "element " << i;
  }
}

}  // namespace zplan::exec::cpu
