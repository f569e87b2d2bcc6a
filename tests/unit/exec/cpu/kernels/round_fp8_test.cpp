// Rounding to e4m3, against all of its values, and in blocks.
#include "exec/cpu/kernels/round_fp8.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "tests/unit/exec/cpu/kernels/kernel_test_support.h"

namespace zplan::exec::cpu {
namespace {

// [Micikevicius22 Table 1] Exponent bias 7, no infinity; 1111.111 is NaN.
std::vector<double> magnitudes() {
  std::vector<double> values;
  for (int bits = 0; bits < 0x7f; ++bits) {
    const int exponent = bits >> 3, mantissa = bits & 7;
    values.push_back(exponent == 0 ? std::ldexp(mantissa, -9)
                                   : std::ldexp(8 + mantissa, exponent - 7 - 3));
  }
  return values;
}

TEST(RoundToE4m3, KeepsItsValues) {
  EXPECT_EQ(magnitudes().back(), kLargestE4m3);
  for (const double value : magnitudes()) {
    EXPECT_EQ(round_to_e4m3(value), value);
    EXPECT_EQ(round_to_e4m3(-value), -value);
  }
}

TEST(RoundToE4m3, TakesTheNearestAndOfTiesTheEvenOne) {
  const auto values = magnitudes();
  for (std::size_t i = 0; i + 1 < values.size(); ++i) {
    const double middle = (values[i] + values[i + 1]) / 2;
    EXPECT_EQ(round_to_e4m3(std::nextafter(middle, 0)), values[i]);
    EXPECT_EQ(round_to_e4m3(std::nextafter(middle, 500)), values[i + 1]);
    EXPECT_EQ(round_to_e4m3(middle), values[i % 2 == 0 ? i : i + 1]);
  }
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
          const double scale = greatest / kLargestE4m3;
          ASSERT_EQ(y[i], round_to_e4m3(x[i] / scale) * scale) << i;
          ASSERT_NEAR(y[i], x[i], std::max(std::abs(x[i]) / 16, scale * 0x1p-10));
        });
      }
  }
}

}  // namespace
}  // namespace zplan::exec::cpu
