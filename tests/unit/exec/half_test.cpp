// The 16-bit types: every value there is, and narrowing at ties, subnormals and the ends.
#include "exec/cpu/kernels/half.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

namespace zplan::exec::cpu {
namespace {

struct Format {
  int exponent_bits, mantissa_bits;
  int bias() const { return (1 << (exponent_bits - 1)) - 1; }
};

template <typename T>
constexpr Format kFormat{};
template <>
constexpr Format kFormat<Bf16>{8, 7};
template <>
constexpr Format kFormat<Fp16>{5, 10};

// The value of a word, from the definition of the format.
double value_of(std::uint16_t bits, const Format& f) {
  const int exponent = (bits >> f.mantissa_bits) & ((1 << f.exponent_bits) - 1);
  const int mantissa = bits & ((1 << f.mantissa_bits) - 1);
  const double sign = (bits & 0x8000) != 0 ? -1 : 1;
  if (exponent == (1 << f.exponent_bits) - 1) {
    return mantissa != 0 ? std::nan("") : sign * std::numeric_limits<double>::infinity();
  }
  const int leading = exponent == 0 ? 0 : 1 << f.mantissa_bits;
  return sign * std::ldexp(leading + mantissa, std::max(exponent, 1) - f.bias() - f.mantissa_bits);
}

template <typename T>
T of_bits(unsigned bits) {
  T value;
  value.bits = static_cast<std::uint16_t>(bits);
  return value;
}

template <typename T>
class HalfTest : public testing::Test {};
using Types = testing::Types<Bf16, Fp16>;
TYPED_TEST_SUITE(HalfTest, Types);

TYPED_TEST(HalfTest, EveryValueWidensExactlyAndNarrowsBackToItself) {
  using T = TypeParam;
  for (unsigned bits = 0; bits < 65536; ++bits) {
    const T half = of_bits<T>(bits);
    const float wide = half;
    const double expected = value_of(half.bits, kFormat<T>);
    if (std::isnan(expected)) {
      ASSERT_TRUE(std::isnan(wide)) << bits;
      ASSERT_TRUE(std::isnan(static_cast<float>(T(wide)))) << bits;
      continue;
    }
    ASSERT_EQ(static_cast<double>(wide), expected) << bits;
    ASSERT_EQ(std::signbit(wide), (bits & 0x8000) != 0) << bits;
    ASSERT_EQ(T(wide).bits, half.bits);
  }
}

// Between two neighbours: below the middle down, above it up, in it to the even one. Infinity's
// neighbour is the largest finite value; the middle is where the next one would be halfway.
TYPED_TEST(HalfTest, NarrowsToTheNearestAndTiesToEven) {
  using T = TypeParam;
  const unsigned infinity = ((1u << kFormat<T>.exponent_bits) - 1) << kFormat<T>.mantissa_bits;
  const float infinite = std::numeric_limits<float>::infinity();
  for (unsigned bits = 0; bits < infinity; ++bits) {
    const double low = value_of(static_cast<std::uint16_t>(bits), kFormat<T>);
    const double step = bits + 1 < infinity
                            ? value_of(static_cast<std::uint16_t>(bits + 1), kFormat<T>) - low
                            : low - value_of(static_cast<std::uint16_t>(bits - 1), kFormat<T>);
    const auto middle = static_cast<float>(low + step / 2);
    ASSERT_EQ(static_cast<double>(middle), low + step / 2);
    const unsigned even = bits % 2 == 0 ? bits : bits + 1;
    for (const float sign : {1.0f, -1.0f}) {
      const unsigned mark = sign < 0 ? 0x8000 : 0;
      ASSERT_EQ(T(sign * middle).bits, even | mark) << bits;
      ASSERT_EQ(T(sign * std::nextafter(middle, 0.0f)).bits, bits | mark) << bits;
      ASSERT_EQ(T(sign * std::nextafter(middle, infinite)).bits, (bits + 1) | mark) << bits;
    }
  }
}

TYPED_TEST(HalfTest, EndsAndNansStay) {
  using T = TypeParam;
  const float infinite = std::numeric_limits<float>::infinity();
  EXPECT_EQ(static_cast<float>(T(infinite)), infinite);
  EXPECT_EQ(static_cast<float>(T(-infinite)), -infinite);
  EXPECT_EQ(static_cast<float>(T(3.4e38f)), infinite);
  EXPECT_TRUE(std::isnan(static_cast<float>(T(std::nanf("")))));
  // All the payload in the bits that are cut off.
  EXPECT_TRUE(std::isnan(static_cast<float>(T(std::bit_cast<float>(0x7f800001u)))));
  EXPECT_EQ(T(std::numeric_limits<float>::denorm_min()).bits, 0);
  EXPECT_EQ(T(-0.0f).bits, 0x8000);
}

// Float words at even distances through their whole range.
TYPED_TEST(HalfTest, NarrowingKeepsOrder) {
  using T = TypeParam;
  float before = 0;
  for (std::uint32_t word = 0; word < 0x7f800000u; word += 1009) {
    const float now = T(std::bit_cast<float>(word));
    ASSERT_GE(now, before) << word;
    before = now;
  }
}

TYPED_TEST(HalfTest, StochasticRoundingTakesANeighbourWithTheRightFrequency) {
  using T = TypeParam;
  std::mt19937 engine(1);
  const float low = T(1.3f), high = of_bits<T>(T(1.3f).bits + 1u);
  for (const double part : {0.0, 0.25, 0.9}) {
    const auto value = static_cast<float>(low + part * (double{high} - double{low}));
    for (const float sign : {1.0f, -1.0f}) {
      int ups = 0;
      constexpr int kDraws = 20000;
      for (int i = 0; i < kDraws; ++i) {
        const float rounded =
            sign * round_stochastically<T>(sign * value, static_cast<std::uint32_t>(engine()));
        ASSERT_TRUE(rounded == low || rounded == high);
        ups += rounded == high ? 1 : 0;
      }
      // Five standard deviations of the share of ups.
      EXPECT_NEAR(ups, part * kDraws, 5 * std::sqrt(kDraws * part * (1 - part)) + 1e-9);
    }
  }
  const float infinite = std::numeric_limits<float>::infinity();
  EXPECT_EQ(static_cast<float>(round_stochastically<T>(infinite, 0xffff)), infinite);
  EXPECT_TRUE(std::isnan(static_cast<float>(round_stochastically<T>(std::nanf(""), 0xffff))));
}

}  // namespace
}  // namespace zplan::exec::cpu
