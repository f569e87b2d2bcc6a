// Rounding to e4m3 and e5m2, against all of their values, and in blocks.
#include "exec/cpu/kernels/round_fp8.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "tests/unit/exec/cpu/kernels/kernel_test_support.h"

namespace zplan::exec::cpu {
namespace {

struct Fp8Case {
  Fp8Format format;
  int bias, finite;  // exponent bias, bit patterns below the first that is no number
};

// [Micikevicius22 Table 1] e4m3 has no infinity, and 1111.111 alone is no number.
constexpr Fp8Case kCases[] = {{kE4m3, 7, 0x7f}, {kE5m2, 15, 0x7c}};

std::vector<double> magnitudes(const Fp8Case& c) {
  std::vector<double> values;
  const int bits = c.format.mantissa_bits, one = 1 << bits;
  for (int code = 0; code < c.finite; ++code) {
    const int exponent = code >> bits, mantissa = code % one;
    values.push_back(exponent == 0 ? std::ldexp(mantissa, 1 - c.bias - bits)
                                   : std::ldexp(one + mantissa, exponent - c.bias - bits));
  }
  return values;
}

TEST(RoundToFp8, KeepsTheValuesOfTheFormat) {
  for (const Fp8Case& c : kCases) {
    EXPECT_EQ(magnitudes(c).back(), c.format.largest);
    for (const double value : magnitudes(c)) {
      EXPECT_EQ(round_to(c.format, value), value);
      EXPECT_EQ(round_to(c.format, -value), -value);
    }
  }
}

TEST(RoundToFp8, TakesTheNearestAndOfTiesTheEvenOne) {
  for (const Fp8Case& c : kCases) {
    const auto values = magnitudes(c);
    for (std::size_t i = 0; i + 1 < values.size(); ++i) {
      const double middle = (values[i] + values[i + 1]) / 2;
      EXPECT_EQ(round_to(c.format, std::nextafter(middle, 0)), values[i]);
      EXPECT_EQ(round_to(c.format, std::nextafter(middle, 1e5)), values[i + 1]);
      EXPECT_EQ(round_to(c.format, middle), values[i % 2 == 0 ? i : i + 1]);
    }
  }
}

// Products of rounded operands have few digits, so that sums of them lie halfway more often than by
// chance. What the last digits of fp64 say there depends on the order of another sum.
TEST(RoundFp8, WhatLiesHalfwayButForTheRoundingOfFp64IsATie) {
  const double greatest = kE5m2.largest, middle = 2.25;  // between 2 and 2.5: 2 is the even one
  const std::vector<double> x = {greatest, std::nextafter(middle, 3), middle,
                                 std::nextafter(middle, 0)};
  std::vector<double> y(x.size());
  round_fp8(y.data(), x.data(), {1, std::ssize(x), 1, std::ssize(x), kE5m2});
  EXPECT_EQ(y, (std::vector<double>{greatest, 2, 2, 2}));
}

// The last blocks of rows and columns are smaller; the greatest of each stays as it is.
TEST(RoundFp8, EveryBlockHasAScaleOfItsOwn) {
  constexpr std::int64_t kRows = 5, kColumns = 11;
  const auto x = random_values<double>(kRows * kColumns, 3);
  for (const std::int64_t block_rows : {1, 2}) {
    auto y = buffer<double>(kRows * kColumns);
    round_fp8(y.data(), x.data(), {kRows, kColumns, block_rows, 4});
    for (std::int64_t row = 0; row < kRows; row += block_rows)
      for (std::int64_t column = 0; column < kColumns; column += 4) {
        double greatest = 0;
        const auto each = [&](const auto& use) {
          for (std::int64_t i = row; i < std::min(row + block_rows, kRows); ++i)
            for (std::int64_t j = column; j < std::min<std::int64_t>(column + 4, kColumns); ++j)
              use(static_cast<std::size_t>(i * kColumns + j));
        };
        each([&](std::size_t i) { greatest = std::max(greatest, std::abs(x[i])); });
        each([&](std::size_t i) {
          const double scale = greatest / kE4m3.largest;
          ASSERT_EQ(y[i], round_to(kE4m3, x[i] / scale) * scale) << i;
          ASSERT_NEAR(y[i], x[i], std::max(std::abs(x[i]) / 16, scale * 0x1p-10));
        });
      }
  }
}

}  // namespace
}  // namespace zplan::exec::cpu
