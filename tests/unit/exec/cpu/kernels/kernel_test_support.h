// What the tests of the CPU kernels share: scratch of an exact size, seeded random values, and
// types known at run time.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

#include "exec/cpu/kernels/half.h"
#include "exec/cpu/kernels/optimizer.h"
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

template <typename T>
inline constexpr double kEpsilon = std::numeric_limits<T>::epsilon();
template <>
inline constexpr double kEpsilon<Bf16> = 0x1p-7;
template <>
inline constexpr double kEpsilon<Fp16> = 0x1p-10;

template <typename T>
constexpr DType dtype_of() {
  if constexpr (std::is_same_v<T, double>) return DType::kF64;
  if constexpr (std::is_same_v<T, float>) return DType::kF32;
  if constexpr (std::is_same_v<T, Bf16>) return DType::kBf16;
  if constexpr (std::is_same_v<T, Fp16>) return DType::kF16;
  return DType::kI32;
}

template <typename T>
Elements elements_of(std::vector<T>& values) {
  return {values.data(), dtype_of<T>()};
}

template <typename To, typename From>
std::vector<To> converted(const std::vector<From>& values) {
  std::vector<To> result;
  for (const From& value : values) result.push_back(static_cast<To>(value));
  return result;
}

// The same bits.
template <typename T>
void expect_same(const std::vector<T>& actual, const std::vector<T>& expected) {
  ASSERT_EQ(actual.size(), expected.size());
  for (std::size_t i = 0; i < actual.size(); ++i)
    ASSERT_EQ(static_cast<double>(actual[i]), static_cast<double>(expected[i])) << "element " << i;
}

// Equal up to `units` units in the last place of max(1, |expected|).
template <typename T>
void expect_near(const std::vector<T>& actual, const std::vector<double>& expected, double units) {
  ASSERT_EQ(actual.size(), expected.size());
  for (std::size_t i = 0; i < actual.size(); ++i) {
    const double tolerance = units * kEpsilon<T> * std::max(1.0, std::abs(expected[i]));
    ASSERT_NEAR(static_cast<double>(actual[i]), expected[i], tolerance) << "element " << i;
  }
}

}  // namespace zplan::exec::cpu
