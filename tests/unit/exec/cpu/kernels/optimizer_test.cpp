// Global-norm clipping and AdamW against their formulas in double, on every mixture of types.
#include "exec/cpu/kernels/optimizer.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "exec/cpu/kernels/kernel_support.h"
#include "tests/unit/exec/cpu/kernels/kernel_test_support.h"

namespace zplan::exec::cpu {
namespace {

template <typename T>
class OptimizerTest : public testing::Test {};
using Types = testing::Types<float, double>;
TYPED_TEST_SUITE(OptimizerTest, Types);

TYPED_TEST(OptimizerTest, SumSquaresAddsToTheSum) {
  using T = TypeParam;
  const auto x = random_values<T>(300 * kElementBlock + 17, 1);  // more blocks than partial sums
  double expected = 2.0, sum = 2.0;
  for (const double v : x) expected += v * v;
  sum_squares(&sum, x.data(), static_cast<std::int64_t>(x.size()));
  EXPECT_NEAR(sum, expected, 1e-12 * expected);
}

TEST(ClipCoefficient, IsMaxNormOverNormButNeverAboveOne) {
  EXPECT_DOUBLE_EQ(clip_coefficient(16.0, 1.0).coefficient, 1.0 / (4.0 + 1e-6));
  EXPECT_DOUBLE_EQ(clip_coefficient(0.25, 1.0).coefficient, 1.0);
  EXPECT_DOUBLE_EQ(clip_coefficient(0.0, 1.0).coefficient, 1.0);
  EXPECT_DOUBLE_EQ(clip_coefficient(1e12, std::numeric_limits<double>::infinity()).coefficient,
                   1.0);
  EXPECT_DOUBLE_EQ(clip_coefficient(16.0, 1.0).norm, 4.0);
  EXPECT_FALSE(clip_coefficient(16.0, 1.0).skip);
}

TEST(ClipCoefficient, ANormThatIsNotFiniteSkipsTheStep) {
  for (const double sum : {std::nan(""), std::numeric_limits<double>::infinity()}) {
    EXPECT_TRUE(clip_coefficient(sum, 1.0).skip);
    EXPECT_EQ(clip_coefficient(sum, 1.0).coefficient, 0.0);
  }
}

// Of the first step.
constexpr AdamwScalars kScalars{1e-2, 0.9, 0.95, 1e-8, 0.1, 1 - 0.9, 1 - 0.95, 0.5, false};

TYPED_TEST(OptimizerTest, AdamwMatchesTheScalarFormulaOverSeveralSteps) {
  using T = TypeParam;
  const std::int64_t n = 1001, offset = 100, decay_elements = 400;
  auto master = random_values<T>(n, 1);
  auto m = buffer<T>(n, 0.0), v = buffer<T>(n, 0.0), param = buffer<T>(n);
  std::vector<double> p(master.begin(), master.end()), first(p.size()), second(p.size());
  AdamwScalars scalars = kScalars;
  for (int t = 1; t <= 5; ++t) {
    scalars.bias_correction1 = 1 - std::pow(0.9, t);
    scalars.bias_correction2 = 1 - std::pow(0.95, t);
    auto grad = random_values<T>(n, static_cast<unsigned>(100 + t));
    adamw(scalars, {elements_of(master), elements_of(m), elements_of(v), elements_of(grad),
                    elements_of(param), n, offset, decay_elements});
    for (std::size_t i = 0; i < p.size(); ++i) {
      const double g = 0.5 * double{grad[i]};
      if (i < 300) p[i] *= 1 - 1e-2 * 0.1;
      first[i] = 0.9 * first[i] + (1 - 0.9) * g;
      second[i] = 0.95 * second[i] + (1 - 0.95) * g * g;
      const double m_hat = first[i] / (1 - std::pow(0.9, t));
      const double v_hat = second[i] / (1 - std::pow(0.95, t));
      p[i] -= 1e-2 * m_hat / (std::sqrt(v_hat) + 1e-8);
    }
    expect_near(master, p, 16);
    expect_near(m, first, 8);
    expect_near(v, second, 8);
    EXPECT_EQ(param, master);
  }
}

// Types of the states, as a recipe mixes them.
template <typename Master, typename Moment, typename Gradient, typename Parameter>
struct Recipe {
  struct States {
    std::vector<Master> master;
    std::vector<Moment> m, v;
    std::vector<Gradient> grad;
    std::vector<Parameter> param;
  };

  static States start(std::int64_t n) {
    return {random_values<Master>(n, 1), random_values<Moment>(n, 2, 0.1), buffer<Moment>(n, 0.25),
            random_values<Gradient>(n, 3), buffer<Parameter>(n)};
  }

  // Elements [begin, end) of the unit.
  static void update(const AdamwScalars& scalars, States& s, std::int64_t begin, std::int64_t end,
                     std::int64_t decay, const RoundingDraws& draws) {
    adamw(scalars, {{s.master.data() + begin, dtype_of<Master>()},
                    {s.m.data() + begin, dtype_of<Moment>()},
                    {s.v.data() + begin, dtype_of<Moment>()},
                    {s.grad.data() + begin, dtype_of<Gradient>()},
                    {s.param.data() + begin, dtype_of<Parameter>()},
                    end - begin,
                    begin,
                    decay,
                    draws});
  }
};

template <typename R>
class AdamwRecipe : public testing::Test {};
using Recipes =
    testing::Types<Recipe<float, float, float, float>, Recipe<double, double, double, double>,
                   Recipe<float, float, Bf16, Bf16>, Recipe<float, float, float, Bf16>,
                   Recipe<float, float, Fp16, Fp16>, Recipe<Bf16, Bf16, Bf16, Bf16>,
                   Recipe<Bf16, float, float, Bf16>, Recipe<float, Bf16, Bf16, float>,
                   Recipe<Fp16, Fp16, Fp16, Fp16>>;
TYPED_TEST_SUITE(AdamwRecipe, Recipes);

constexpr RoundingDraws kDraws{{12, 34}, 5, 6};

TYPED_TEST(AdamwRecipe, EqualsTheFormulaUpToTheRoundingOfItsTypes) {
  const std::int64_t n = 3 * 512 + 77, decay = 700;
  auto s = TypeParam::start(n);
  const auto before = s;
  TypeParam::update(kScalars, s, 0, n, decay, kDraws);
  std::vector<double> master, m, v;
  for (std::size_t i = 0; i < s.master.size(); ++i) {
    const double g = 0.5 * static_cast<double>(before.grad[i]);
    m.push_back(0.9 * static_cast<double>(before.m[i]) + (1 - 0.9) * g);
    v.push_back(0.95 * static_cast<double>(before.v[i]) + (1 - 0.95) * g * g);
    const double keep = static_cast<std::int64_t>(i) < decay ? 1 - 1e-2 * 0.1 : 1;
    master.push_back(static_cast<double>(before.master[i]) * keep -
                     1e-2 * m[i] / (1 - 0.9) / (std::sqrt(v[i] / (1 - 0.95)) + 1e-8));
  }
  // Within a unit in the last place: stochastic rounding takes either neighbour.
  expect_near(s.master, master, 4);
  expect_near(s.m, m, 4);
  expect_near(s.v, v, 4);
  for (std::size_t i = 0; i < s.param.size(); ++i)
    ASSERT_EQ(
        static_cast<double>(s.param[i]),
        static_cast<double>(static_cast<std::remove_cvref_t<decltype(s.param[i])>>(s.master[i])));
}

TYPED_TEST(AdamwRecipe, ShardsEqualTheWholeBitForBit) {
  const std::int64_t n = 2 * kElementBlock + 77, decay = kElementBlock + 5;
  auto whole = TypeParam::start(n), parts = whole;
  TypeParam::update(kScalars, whole, 0, n, decay, kDraws);
  for (const auto& [begin, end] :
       {std::pair{std::int64_t{0}, std::int64_t{4097}},
        std::pair{std::int64_t{4097}, std::int64_t{9000}}, std::pair{std::int64_t{9000}, n}})
    TypeParam::update(kScalars, parts, begin, end, decay, kDraws);
  expect_same(whole.master, parts.master);
  expect_same(whole.m, parts.m);
  expect_same(whole.v, parts.v);
  expect_same(whole.param, parts.param);
}

TYPED_TEST(AdamwRecipe, SkippedStepOnlyCopiesTheMaster) {
  const std::int64_t n = 50;
  auto s = TypeParam::start(n);
  const auto before = s;
  AdamwScalars scalars = kScalars;
  scalars.skip = true;
  TypeParam::update(scalars, s, 0, n, n, kDraws);
  expect_same(s.master, before.master);
  expect_same(s.m, before.m);
  expect_same(s.v, before.v);
  expect_near(s.param, converted<double>(before.master), 1);
}

// An update of a fiftieth of a unit in the last place, 500 times: rounding to the nearest would
// lose every one of them, stochastic rounding keeps their sum.
TEST(StochasticRounding, SmallUpdatesAddUp) {
  using Lean = Recipe<Bf16, Bf16, Bf16, Bf16>;
  const std::int64_t n = 4000;
  auto s = Lean::start(n);
  s.master = buffer<Bf16>(n, 1.0);
  s.m = s.v = s.grad = buffer<Bf16>(n, 1.0);
  AdamwScalars scalars{0x1p-7 / 50, 0.5, 0.5, 0, 0, 1, 1, 1, false};
  double mean = 0;
  for (std::uint32_t step = 0; step < 500; ++step)
    Lean::update(scalars, s, 0, n, 0, {{7, 8}, step, 0});
  for (const Bf16& value : s.master) mean += static_cast<double>(value) / n;
  EXPECT_NEAR(mean, 1 - 10 * 0x1p-7, 0.05 * 0x1p-7 * 10);
}

TEST(StochasticRounding, DrawsDifferFromStepToStepAndPlaceToPlace) {
  using Lean = Recipe<Bf16, Bf16, Bf16, Bf16>;
  const std::int64_t n = 2000;
  auto first = Lean::start(n), again = first, other_step = first, other_place = first;
  Lean::update(kScalars, first, 0, n, 0, kDraws);
  Lean::update(kScalars, again, 0, n, 0, kDraws);
  Lean::update(kScalars, other_step, 0, n, 0, {kDraws.key, 4, 6});
  Lean::update(kScalars, other_place, 0, n, 0, {kDraws.key, 5, 7});
  expect_same(first.master, again.master);
  const auto differs = [&](const Lean::States& other) {
    int count = 0;
    for (std::size_t i = 0; i < first.master.size(); ++i)
      count += first.master[i].bits != other.master[i].bits ? 1 : 0;
    return count;
  };
  EXPECT_GT(differs(other_step), 400);
  EXPECT_GT(differs(other_place), 400);
}

// All three end halfway between the same two neighbours, so that only the draws tell them apart: of
// two independent ones half of the elements agree.
TEST(StochasticRounding, DrawsOfMasterAndMomentsAreIndependent) {
  using Lean = Recipe<Bf16, Bf16, Bf16, Bf16>;
  const std::int64_t n = 4000;
  auto s = Lean::start(n);
  s.master = s.m = s.v = buffer<Bf16>(n, 1.0);
  s.grad = buffer<Bf16>(n, 2.0);
  const double half = 0x1p-8;  // of a unit in the last place of 1
  const AdamwScalars scalars{-half, 1 - half, 1 - half / 3, 0, 0, 1, 1, 1, false};
  Lean::update(scalars, s, 0, n, 0, kDraws);
  const auto share = [&](const auto& a, const auto& b) {
    int same = 0;
    for (std::size_t i = 0; i < a.size(); ++i)
      same += (static_cast<double>(a[i]) > 1) == (static_cast<double>(b[i]) > 1) ? 1 : 0;
    return same / static_cast<double>(n);
  };
  EXPECT_NEAR(share(s.master, s.m), 0.5, 0.05);
  EXPECT_NEAR(share(s.master, s.v), 0.5, 0.05);
  EXPECT_NEAR(share(s.m, s.v), 0.5, 0.05);
}

}  // namespace
}  // namespace zplan::exec::cpu
