// SGD and 8-bit AdamW against their formulas in double, and the values that a byte stands for.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "exec/cpu/kernels/optimizer.h"
#include "exec/kernels/dynamic_codes.h"
#include "tests/unit/exec/cpu/kernels/kernel_test_support.h"

namespace zplan::exec::cpu {
namespace {

constexpr AdamwScalars kScalars{1e-2, 0.9, 0.95, 1e-8, 0.1, 1 - 0.9, 1 - 0.95, 0.5, false};
constexpr std::int64_t kN = 1001, kOffset = 100, kDecaying = 400;

template <typename T>
class OptimizerKinds : public testing::Test {};
using Types = testing::Types<float, double>;
TYPED_TEST_SUITE(OptimizerKinds, Types);

TYPED_TEST(OptimizerKinds, SgdIsThatOfItsFormula) {
  using T = TypeParam;
  for (const bool momentum : {false, true}) {
    auto master = random_values<T>(kN, 1), m = buffer<T>(kN, 0.0), param = buffer<T>(kN);
    std::vector<double> p(master.begin(), master.end()), first(p.size());
    for (unsigned t = 1; t <= 3; ++t) {
      auto grad = random_values<T>(kN, 100 + t);
      sgd(kScalars,
          {elements_of(master), momentum ? elements_of(m) : Elements{nullptr, DType::kF32},
           elements_of(grad), elements_of(param), kN, kOffset, kDecaying});
      for (std::size_t i = 0; i < p.size(); ++i) {
        const bool decays = kOffset + static_cast<std::int64_t>(i) < kDecaying;
        double g = grad[i] * 0.5 + (decays ? 0.1 * p[i] : 0);
        if (momentum) g = first[i] = 0.9 * first[i] + g;
        p[i] -= 1e-2 * g;
      }
    }
    for (std::size_t i = 0; i < p.size(); ++i) {
      ASSERT_NEAR(master[i], p[i], (std::is_same_v<T, double> ? 1e-15 : 1e-6)) << i;
      ASSERT_EQ(param[i], master[i]);
    }
  }
}

TEST(DynamicCodes, AreAscendingAndOfEveryMagnitude) {
  for (const bool has_sign : {false, true}) {
    const DynamicCodes<double> codes(has_sign);
    EXPECT_TRUE(std::is_sorted(codes.values.begin(), codes.values.end()));
    EXPECT_EQ(std::adjacent_find(codes.values.begin(), codes.values.end()), codes.values.end());
    EXPECT_EQ(codes.values.back(), 1);
    EXPECT_EQ(codes.values[codes.code(0)], 0);
    EXPECT_EQ(codes.values.front() < 0, has_sign);
    for (std::size_t i = 0; i < codes.values.size(); ++i) EXPECT_EQ(codes.code(codes.values[i]), i);
    for (const double x : {0.9, 0.1, 3e-3, 4e-5, 7e-7})
      EXPECT_NEAR(codes.values[codes.code(x)], x, x) << x;
  }
}

// Of two that are as near the lower one.
TEST(DynamicCodes, RoundToTheNearest) {
  const DynamicCodes<double> codes(true);
  for (std::size_t i = 0; i < codes.middles.size(); ++i) {
    EXPECT_EQ(codes.code(codes.middles[i]), i);
    EXPECT_EQ(codes.code(std::nextafter(codes.middles[i], 2)), i + 1);
  }
}

// The last block is shorter; what follows the updates of a block is what its bytes stand for.
TYPED_TEST(OptimizerKinds, MomentsOfAByteAreThoseOfTheirBlocks) {
  using T = TypeParam;
  constexpr std::int64_t kBlock = 64, kBlocks = 16;
  auto master = random_values<T>(kN, 1);
  std::vector<std::uint8_t> m(kN, 0), v(kN, 0);
  auto m_scale = buffer<T>(kBlocks, 0.0), v_scale = buffer<T>(kBlocks, 0.0);
  std::vector<double> p(master.begin(), master.end()), first(p.size()), second(p.size());
  const DynamicCodes<double> with_sign(true), without(false);
  const double tolerance = std::is_same_v<T, double> ? 1e-14 : 1e-5;
  for (int t = 1; t <= 3; ++t) {
    AdamwScalars scalars = kScalars;
    scalars.bias_correction1 = 1 - std::pow(0.9, t);
    scalars.bias_correction2 = 1 - std::pow(0.95, t);
    auto grad = random_values<T>(kN, static_cast<unsigned>(100 + t));
    AdamwShard shard{.master = elements_of(master),
                     .m = {m.data(), DType::kU8},
                     .v = {v.data(), DType::kU8},
                     .grad = elements_of(grad),
                     .param = {nullptr, DType::kF32},
                     .n = kN,
                     .flat_offset = kOffset,
                     .decay_elements = kDecaying};
    adamw_8bit(scalars, {shard, elements_of(m_scale), elements_of(v_scale), kBlock});
    for (std::size_t i = 0; i < p.size(); ++i) {
      const double g = grad[i] * 0.5;
      const double m_new = 0.9 * first[i] + 0.1 * g, v_new = 0.95 * second[i] + 0.05 * g * g;
      if (kOffset + static_cast<std::int64_t>(i) < kDecaying) p[i] *= 1 - 1e-2 * 0.1;
      p[i] -= 1e-2 / scalars.bias_correction1 * m_new /
              (std::sqrt(v_new / scalars.bias_correction2) + 1e-8);
      ASSERT_NEAR(master[i], p[i], tolerance) << "step " << t << ", element " << i;
      const std::size_t block = i / kBlock;
      first[i] = with_sign.values[m[i]] * m_scale[block];
      second[i] = without.values[v[i]] * v_scale[block];
      // Half of the widest step between values.
      ASSERT_NEAR(first[i], m_new, 0.0071 * m_scale[block]);
      ASSERT_NEAR(second[i], v_new, 0.0036 * v_scale[block]);
      p[i] = master[i];
    }
  }
}

TEST(Adamw8Bit, ASkippedStepLeavesTheStates) {
  auto master = random_values<float>(10, 1);
  const auto before = master;
  auto grad = random_values<float>(10, 2), scale = buffer<float>(1, 0.5), other = scale;
  std::vector<std::uint8_t> m(10, 200), v(10, 100);
  AdamwScalars scalars = kScalars;
  scalars.skip = true;
  adamw_8bit(scalars, {{.master = elements_of(master),
                        .m = {m.data(), DType::kU8},
                        .v = {v.data(), DType::kU8},
                        .grad = elements_of(grad),
                        .param = {nullptr, DType::kF32},
                        .n = 10,
                        .flat_offset = 0,
                        .decay_elements = 10},
                       elements_of(scale),
                       elements_of(other),
                       256});
  EXPECT_EQ(master, before);
  EXPECT_EQ(m, std::vector<std::uint8_t>(10, 200));
  EXPECT_EQ(scale[0], 0.5f);
}

}  // namespace
}  // namespace zplan::exec::cpu
