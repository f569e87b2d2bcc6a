#include "exec/checkpoint/finite.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

namespace zplan::exec {
namespace {

template <typename Element>
bool is_finite(DType dtype, const std::vector<Element>& elements) {
  return all_finite(dtype, std::as_bytes(std::span(elements)));
}

template <typename Element>
void expect_finds(DType dtype, Element bad) {
  std::vector<Element> elements(1000, std::numeric_limits<Element>::max());
  elements[3] = std::numeric_limits<Element>::denorm_min();
  EXPECT_TRUE(is_finite(dtype, elements));
  for (const std::size_t place : {0U, 517U, 999U}) {
    std::vector<Element> spoiled = elements;
    spoiled[place] = bad;
    EXPECT_FALSE(is_finite(dtype, spoiled)) << place;
  }
}

TEST(Finite, FindsOneElementThatIsNot) {
  for (const double bad : {double{NAN}, -double{NAN}, HUGE_VAL, -HUGE_VAL})
    expect_finds<double>(DType::kF64, bad);
  for (const float bad : {NAN, -NAN, HUGE_VALF, -HUGE_VALF}) expect_finds<float>(DType::kF32, bad);
}

TEST(Finite, OfHalfPrecisionByItsBits) {
  using Bits = std::vector<std::uint16_t>;
  EXPECT_TRUE(is_finite(DType::kF16, Bits{0x7bff, 0xfbff, 0x8000}));
  EXPECT_FALSE(is_finite(DType::kF16, Bits{0, 0xfc00}));
  EXPECT_FALSE(is_finite(DType::kF16, Bits{0x7e01}));
  EXPECT_TRUE(is_finite(DType::kBf16, Bits{0x7f7f, 0xff7f, 0x7c00}));
  EXPECT_FALSE(is_finite(DType::kBf16, Bits{0, 0xff80}));
  EXPECT_FALSE(is_finite(DType::kBf16, Bits{0x7fc0}));
}

TEST(Finite, NamesTheParameterWhoeverHoldsPartsOfIt) {
  const std::vector<float> elements{1, NAN};
  SavedPiece own;
  own.pieces = 2;
  own.tensors.emplace_back().name = "head.weight";
  EXPECT_EQ(not_finite(own, std::as_bytes(std::span(elements))),
            "head.weight has values that are not finite");
  EXPECT_EQ(not_finite(own, std::as_bytes(std::span(elements).first(1))), std::nullopt);
}

TEST(Finite, IntegersAlwaysAre) { EXPECT_TRUE(is_finite<std::int32_t>(DType::kI32, {-1, 1})); }

}  // namespace
}  // namespace zplan::exec
