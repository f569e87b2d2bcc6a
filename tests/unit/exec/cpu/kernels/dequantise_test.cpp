// Codes of 4 bits and what they stand for, by hand.
#include "exec/cpu/kernels/dequantise.h"

#include <gtest/gtest.h>

#include <array>
#include <vector>

namespace zplan::exec::cpu {
namespace {

TEST(FourBits, TablesAreThoseOfTheirAuthors) {
  EXPECT_EQ(kNormalFloat[7], 0);
  EXPECT_EQ(kNormalFloat[0], -1);
  EXPECT_EQ(kNormalFloat[15], 1);
  for (unsigned i = 0; i < 15; ++i) EXPECT_LT(kNormalFloat[i], kNormalFloat[i + 1]);
  // A sign, two bits of an exponent and one of a mantissa; the greatest is 12 / 12.
  EXPECT_EQ(kFourBitFloat[3], 1);
  EXPECT_EQ(kFourBitFloat[11], -1);
  EXPECT_NEAR(kFourBitFloat[1], 0.0052083333, 1e-9);
}

TEST(FourBits, TheNearestCodeIsTakenOfTwoTheLower) {
  for (unsigned code = 0; code < 16; ++code)
    EXPECT_EQ(nearest_code(kNormalFloat, kNormalFloat[code]), code);
  EXPECT_EQ(nearest_code(kNormalFloat, kNormalFloat[8] / 2), 7U);
  EXPECT_EQ(nearest_code(kNormalFloat, -3.0), 0U);
  EXPECT_EQ(nearest_code(kFourBitFloat, 0.0), 0U);
}

TEST(FourBits, ABlockComesBackWithinHalfAStep) {
  std::vector<double> values(64);
  for (std::size_t i = 0; i < 64; ++i) values[i] = 0.03 * static_cast<double>(i) - 0.9;
  const double scale = greatest_magnitude(values);
  std::array<std::uint8_t, 32> codes{};
  encode_block(kNormalFloat, values, scale, codes.data());
  std::vector<double> back(64);
  dequantise(back.data(), CodedMatrix<double>{codes.data(), &scale, nullptr, nullptr, 64, false});
  EXPECT_EQ(back[63], values[63]) << "the greatest is exact";
  for (std::size_t i = 0; i < 64; ++i) EXPECT_NEAR(back[i], values[i], 0.16 * scale);
}

TEST(FourBits, ScalesOfEightBitsAreParts255OfTheirConstant) {
  const std::array<std::uint8_t, 64> codes = [] {
    std::array<std::uint8_t, 64> all{};
    all.fill(0xF0);  // 1, -1 in turn
    return all;
  }();
  const std::array<std::uint8_t, 2> scales{scale_code(2.0, 2.0), scale_code(1.0, 2.0)};
  EXPECT_EQ(scales[0], 255);
  EXPECT_EQ(scales[1], 128);
  const double constant = 2.0;
  std::vector<double> y(128);
  dequantise(y.data(),
             CodedMatrix<double>{codes.data(), nullptr, scales.data(), &constant, 128, false});
  EXPECT_DOUBLE_EQ(y[0], 2.0);
  EXPECT_DOUBLE_EQ(y[1], -2.0);
  EXPECT_DOUBLE_EQ(y[64], 128 / 255.0 * 2.0);
}

}  // namespace
}  // namespace zplan::exec::cpu
