// Routing and grouped products against plain formulas: choices, weights, rows, drops, the auxiliary
// loss, sums of rows; products with experts that have none, one and many rows.
#include "exec/cpu/kernels/experts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "exec/cpu/kernels/grouped_gemm.h"
#include "planner/core/error.h"
#include "tests/unit/exec/cpu/kernels/kernel_test_support.h"

namespace zplan::exec::cpu {
namespace {

using Indices = std::vector<std::int32_t>;

struct Choice {
  Indices chosen;
  std::vector<double> weights;
};

Choice choose(const RouterShape& s, const std::vector<double>& logits,
              const std::vector<double>& bias = {}) {
  const auto n = static_cast<std::size_t>(s.tokens * s.choices);
  Choice x{Indices(n), std::vector<double>(n)};
  choose_experts<double>(
      s, {x.chosen.data(), x.weights.data(), logits.data(), bias.empty() ? nullptr : bias.data()});
  return x;
}

TEST(Router, ChoosesTheHighestAndOfEqualOnesTheFirst) {
  const RouterShape s{.tokens = 2, .experts = 4, .choices = 2, .renormalised = true, .scale = 3};
  const Choice x = choose(s, {0, 2, 1, 2, 5, 5, 5, 5});
  EXPECT_EQ(x.chosen, (Indices{1, 3, 0, 1}));
  for (const double weight : x.weights) EXPECT_DOUBLE_EQ(weight, 1.5);
}

TEST(Router, WeightsAreScoresWhereTheyAreNotRenormalised) {
  const Choice x = choose({.tokens = 1, .experts = 3, .choices = 1}, {std::log(1), std::log(2), 0});
  EXPECT_EQ(x.chosen, Indices{1});
  EXPECT_DOUBLE_EQ(x.weights[0], 0.5);
}

TEST(Router, ABiasMovesTheChoiceAndNoWeight) {
  const RouterShape s{.tokens = 1, .experts = 3, .choices = 1, .sigmoid = true};
  const Choice x = choose(s, {0, 1, 2}, {0.9, 0, 0});
  EXPECT_EQ(x.chosen, Indices{0});
  EXPECT_DOUBLE_EQ(x.weights[0], 0.5);
}

// Scores of 4 experts in two groups: the second has the best expert, the first the best pair.
TEST(Router, ChoosesFromTheGroupsWithTheBestExpertOrTheBestPairByBias) {
  RouterShape s{.tokens = 1, .experts = 4, .choices = 2, .sigmoid = true};
  s.groups = 2;
  s.kept_groups = 1;
  EXPECT_EQ(choose(s, {1, 1, 2, -2}).chosen, (Indices{2, 3}));
  EXPECT_EQ(choose(s, {1, 1, 2, -2}, {0, 0, 0, 0}).chosen, (Indices{0, 1}));
  s.kept_groups = 2;
  EXPECT_EQ(choose(s, {1, 1, 2, -2}).chosen, (Indices{2, 0}));
}

TEST(Router, LogitsThatAreNoNumbersStillGiveDifferentExperts) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const Choice x = choose({.tokens = 1, .experts = 3, .choices = 3}, {nan, 1, nan});
  EXPECT_THAT(x.chosen, ::testing::UnorderedElementsAre(0, 1, 2));
}

// The choice stays as it is where no logit moves far.
TEST(Router, TheGradientIsTheSlopeOfTheWeights) {
  constexpr double kStep = 1e-6;
  const std::vector<double> logits{0.3, 2, 1, -1}, dweights{1, -0.5};
  for (const bool sigmoid : {false, true})
    for (const bool renormalised : {false, true}) {
      RouterShape s{.tokens = 1, .experts = 4, .choices = 2, .renormalised = renormalised};
      s.sigmoid = sigmoid;
      s.scale = 3;
      const auto value = [&](std::vector<double> moved, std::size_t at, double step) {
        moved[at] += step;
        const Choice x = choose(s, moved);
        return x.weights[0] * dweights[0] + x.weights[1] * dweights[1];
      };
      const Indices chosen = choose(s, logits).chosen;
      std::vector<double> gradient(4);
      choose_experts_backward<double>(
          s, {gradient.data(), logits.data(), chosen.data(), dweights.data()});
      for (std::size_t e = 0; e < 4; ++e)
        EXPECT_NEAR(gradient[e], (value(logits, e, kStep) - value(logits, e, -kStep)) / (2 * kStep),
                    1e-8)
            << e;
    }
}

// Two tokens of three elements.
TEST(RowGates, MultiplyByTheSigmoidAndTheirGradientIsTheSlope) {
  constexpr double kStep = 1e-6;
  const std::vector<double> gate{0.7, -2}, x{1, -2, 3, 0.5, 4, -1}, dout{0.3, 1, -2, 0.1, 0.2, 5};
  const auto gated = [&](const std::vector<double>& gates, std::vector<double> y) {
    gate_rows<double>({.y = y.data(), .gate = gates.data(), .tokens = 2, .width = 3});
    return y;
  };
  const std::vector<double> y = gated(gate, x);
  EXPECT_DOUBLE_EQ(y[1], -2 / (1 + std::exp(-0.7)));
  EXPECT_DOUBLE_EQ(y[4], 4 / (1 + std::exp(2)));
  std::vector<double> dy = dout, dgate(2);
  gate_rows_backward<double>({.dy = dy.data(),
                              .dgate = dgate.data(),
                              .y = y.data(),
                              .gate = gate.data(),
                              .tokens = 2,
                              .width = 3});
  const auto value = [&](std::vector<double> gates, std::vector<double> rows) {
    rows = gated(gates, std::move(rows));
    return std::inner_product(rows.begin(), rows.end(), dout.begin(), 0.0);
  };
  const auto slope = [&](const std::vector<double>& of, std::size_t at, const auto& value_of) {
    std::vector<double> more = of, less = of;
    more[at] += kStep;
    less[at] -= kStep;
    return (value_of(more) - value_of(less)) / (2 * kStep);
  };
  for (std::size_t t = 0; t < 2; ++t)
    EXPECT_NEAR(dgate[t], slope(gate, t, [&](const auto& moved) { return value(moved, x); }), 1e-8);
  for (std::size_t i = 0; i < 6; ++i)
    EXPECT_NEAR(dy[i], slope(x, i, [&](const auto& moved) { return value(gate, moved); }), 1e-8);
}

struct Placed {
  Indices rows, counts;
  double dropped = 0;
};

Placed place(const Indices& chosen, RowPlacing x) {
  Placed result{Indices(chosen.size()), Indices(static_cast<std::size_t>(x.ranks * x.experts)), 0};
  x.rows = result.rows.data();
  x.counts = result.counts.data();
  x.dropped = &result.dropped;
  x.chosen = chosen.data();
  place_rows(x);
  return result;
}

// 4 tokens, 2 ranks with 2 experts each.
RowPlacing four_tokens(std::int64_t capacity, std::int64_t room) {
  RowPlacing x{};
  x.tokens = 4;
  x.choices = 1;
  x.ranks = x.experts = x.parts.sequences = 2;
  x.capacity = capacity;
  x.room = room;
  return x;
}

// Its weight is 1 whatever the logits are; what rounding left of the gradient optimizers would
// make whole steps of.
TEST(Router, OneRenormalisedChoiceHasNoGradientAtAll) {
  for (const bool sigmoid : {false, true}) {
    const RouterShape s{
        .tokens = 4, .experts = 3, .choices = 1, .sigmoid = sigmoid, .renormalised = true};
    const std::vector<double> logits{0.1, 0.7, 0.3, 1.3, -0.2, 0.9, 3, 2, 1, 0.11, 0.13, 0.17};
    const std::vector<double> dweights{0.3, -0.7, 1.1, 1e-3};
    const Choice x = choose(s, logits);
    std::vector<double> dlogits(logits.size(), 9);
    choose_experts_backward<double>(
        s, {dlogits.data(), logits.data(), x.chosen.data(), dweights.data()});
    for (const double gradient : dlogits) EXPECT_EQ(gradient, 0);
  }
}

TEST(Rows, AreByRankThenExpertThenToken) {
  const Placed x = place({3, 0, 3, 1}, four_tokens(0, 4));
  EXPECT_EQ(x.counts, (Indices{1, 1, 0, 2}));
  EXPECT_EQ(x.rows, (Indices{4, 0, 5, 1}));
  EXPECT_EQ(x.dropped, 0);
}

TEST(Rows, BeyondTheCapacityOfASequenceAreDroppedInTheOrderOfTokens) {
  const Placed x = place({2, 2, 2, 1}, four_tokens(1, 4));
  EXPECT_EQ(x.counts, (Indices{0, 1, 2, 0}));
  EXPECT_EQ(x.rows, (Indices{4, -1, 5, 0}));
  EXPECT_EQ(x.dropped, 1);
}

TEST(Rows, ThatARankHasNoRoomForAreRefusedWithTheImbalanceThatTakesThem) {
  try {
    place({0, 1, 0, 3}, four_tokens(0, 2));
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), ::testing::HasSubstr("3 rows go to the experts of rank 0 of their "
                                                   "group, there is room for 2: "
                                                   "--expert-imbalance 1.500 would take them"));
  }
}

// Three sequences of 4 tokens, of which each of two ranks has 6: the second is cut in the middle.
struct TwoParts {
  std::int64_t experts;
  Indices chosen;  // of all 12 tokens, one each
  std::vector<double> choices;

  TwoParts(std::int64_t experts, Indices all) : experts(experts), chosen(std::move(all)) {
    choices.assign(static_cast<std::size_t>(2 * 3 * experts), 7);  // overwritten
    for (std::int64_t place : {0, 1})
      count_choices({.counts = choices.data() + place * 3 * experts,
                     .chosen = chosen.data() + place * 6,
                     .tokens = 6,
                     .choices = 1,
                     .experts = experts,
                     .parts = {.sequences = 3, .ranks = 2, .place = place},
                     .adds = false});
  }
  SequenceParts parts(std::int64_t place) const {
    return {.sequences = 3, .ranks = 2, .place = place, .choices = choices.data()};
  }
};

TEST(Choices, AreCountedByTheSequencesThatARankHasPartsOf) {
  const TwoParts x(2, {0, 1, 1, 1, 0, 0, 1, 0, 1, 1, 1, 1});
  EXPECT_EQ(x.choices, (std::vector<double>{1, 3, 2, 0, 0, 0, 0, 0, 1, 1, 0, 4}));
  std::vector<double> loads{10, 20};
  count_choices({.counts = loads.data(),
                 .chosen = x.chosen.data(),
                 .tokens = 12,
                 .choices = 1,
                 .experts = 2,
                 .parts = {},
                 .adds = true});
  EXPECT_EQ(loads, (std::vector<double>{14, 28}));
}

TEST(Rows, OfPartsOfSequencesAreDroppedAsThoseOfTheWhole) {
  const TwoParts two(2, {0, 1, 1, 1, 0, 0, 1, 0, 1, 1, 1, 1});
  const auto placed = [&](SequenceParts parts, std::int64_t from, std::int64_t to) {
    RowPlacing x{};
    x.tokens = to - from;
    x.choices = x.ranks = 1;
    x.experts = 2;
    x.parts = parts;
    x.capacity = 2;
    x.room = 12;
    return place(Indices(two.chosen.begin() + from, two.chosen.begin() + to), x);
  };
  const Placed whole = placed({.sequences = 3}, 0, 12);
  double dropped = 0;
  for (std::int64_t rank : {0, 1}) {
    const Placed part = placed(two.parts(rank), 6 * rank, 6 * rank + 6);
    dropped += part.dropped;
    for (std::size_t i = 0; i < 6; ++i)
      EXPECT_EQ(part.rows[i] < 0, whole.rows[static_cast<std::size_t>(6 * rank) + i] < 0) << i;
  }
  EXPECT_EQ(whole.dropped, 1 + 1 + 2);
  EXPECT_EQ(dropped, whole.dropped);
}

TEST(Rows, ComeBackAsTheirWeightedSum) {
  const RowShape s{.tokens = 2, .choices = 2, .ranks = 2, .experts = 1, .room = 3, .width = 2};
  const std::vector<double> x{1, 2, 3, 4}, weights{0.5, 2, 1, 7};
  const Indices rows{0, 3, 4, -1}, counts{1, 2};
  auto sent = buffer<double>(12);
  dispatch_rows(s, sent.data(), x.data(), rows.data(), counts.data());
  EXPECT_EQ(sent, (std::vector<double>{1, 2, 0, 0, 0, 0, 1, 2, 3, 4, 0, 0}));
  std::vector<double> y{10, 10, 10, 10};
  combine_rows<double>(s, y.data(), sent.data(), rows.data(), weights.data(), true);
  EXPECT_EQ(y, (std::vector<double>{12.5, 15, 13, 14}));
  combine_rows<double>(s, y.data(), sent.data(), rows.data(), nullptr, false);
  EXPECT_EQ(y, (std::vector<double>{2, 4, 3, 4}));
}

// 2 ranks of 3 tokens, 2 choices each; parts have room for 4 rows. Those of the second rank's
// experts are 4 to 7 of each rank's own count.
TEST(Rows, OfARanksExpertsAreSelectedFromThoseOfAllTokens) {
  const Indices rows{0, 4, 1, -1, 5, 6, 2, 3, 7, 0, 4, 1};
  Indices own(12, 99);
  select_rows({.own = own.data(),
               .rows = rows.data(),
               .tokens = 6,
               .choices = 2,
               .ranks = 2,
               .room = 4,
               .place = 1});
  EXPECT_EQ(own, (Indices{-1, 0, -1, -1, 1, 2, -1, -1, 7, -1, 4, -1}));
}

// [Fedus21 Eq.4]: 1 at an even router, so that the loss is the coefficient.
TEST(Balance, OfAnEvenRouterIsTheCoefficient) {
  const RouterShape s{.tokens = 8, .experts = 4, .choices = 2};
  const std::vector<double> logits(32, 0.3);
  const Indices chosen{0, 1, 2, 3, 0, 1, 2, 3, 1, 2, 3, 0, 2, 3, 0, 1};
  std::vector<double> dlogits(32);
  double loss = 0;
  balance_experts<double>(s, {dlogits.data(), &loss, logits.data(), chosen.data(), {2}, 0.125, 1});
  EXPECT_DOUBLE_EQ(loss, 2 * 0.125);  // of two sequences
  for (const double gradient : dlogits) EXPECT_NEAR(gradient, 0, 1e-16);
}

TEST(Balance, OfPartsOfSequencesIsThatOfTheWhole) {
  const TwoParts two(3, {0, 1, 2, 1, 0, 0, 2, 0, 1, 2, 1, 1});
  const auto logits = random_values<double>(12 * 3, 5);
  for (const bool sigmoid : {false, true}) {
    std::vector<double> whole(36), parts(36);
    double loss = 0, sum = 0;
    balance_experts<double>(
        {.tokens = 12, .experts = 3, .choices = 1, .sigmoid = sigmoid},
        {whole.data(), &loss, logits.data(), two.chosen.data(), {.sequences = 3}, 0.5, 2});
    for (std::int64_t rank : {0, 1})
      balance_experts<double>({.tokens = 6, .experts = 3, .choices = 1, .sigmoid = sigmoid},
                              {parts.data() + rank * 18, &sum, logits.data() + rank * 18,
                               two.chosen.data() + rank * 6, two.parts(rank), 0.5, 2});
    EXPECT_NEAR(sum, loss, 1e-15);
    for (std::size_t i = 0; i < whole.size(); ++i) EXPECT_NEAR(parts[i], whole[i], 1e-15) << i;
  }
}

// Shards of 4 elements, biases from element 2 of the unit on.
TEST(Balance, OfABiasRaisesWhatHasLessThanTheMeanAndLowersTheRest) {
  const std::vector<double> loads{1, 3, 2, 2};
  std::vector<double> unit(8, 0.5);
  for (std::int64_t first : {0, 4})
    balance_bias<double>({.master = unit.data() + first,
                          .loads = loads.data(),
                          .elements = 4,
                          .experts = 4,
                          .first = 2 - first,
                          .rate = 0.25});
  EXPECT_EQ(unit, (std::vector<double>{0.5, 0.5, 0.75, 0.25, 0.5, 0.5, 0.5, 0.5}));
}

template <typename T>
class GroupedProducts : public testing::Test {};
using Types = testing::Types<float, double, Bf16>;
TYPED_TEST_SUITE(GroupedProducts, Types);

// The expert that a row is of, of three; 3: of none.
std::int64_t expert_of(const GroupedShape& s, const Indices& counts, std::int64_t row) {
  const std::int64_t part = row / s.room * 3;
  std::int64_t expert = 0, end = counts[static_cast<std::size_t>(part)];
  while (expert < 3 && row % s.room >= end)
    if (++expert < 3) end += counts[static_cast<std::size_t>(part + expert)];
  return expert;
}

template <typename T>
void expect_products_of_each_expert(const GroupedShape& s, const Indices& counts) {
  const std::int64_t in = s.in, out = s.out, rows = s.ranks * s.room;
  const auto x = random_values<T>(rows * in, 1), w = random_values<T>(3 * in * out, 2),
             dy = random_values<T>(rows * out, 3);
  auto y = buffer<T>(rows * out), dx = buffer<T>(rows * in), dw = buffer<T>(3 * in * out);
  Workspace space(grouped_scratch_bytes<T>(s));
  grouped_forward(s, y.data(), x.data(), w.data(), counts.data(), false, space.span());
  grouped_input_gradient(s, dx.data(), dy.data(), w.data(), counts.data(), false, space.span());
  grouped_weight_gradient(s, dw.data(), x.data(), dy.data(), counts.data(), false, space.span());
  const auto at = [](const std::vector<T>& v, std::int64_t i) {
    return static_cast<double>(v[static_cast<std::size_t>(i)]);
  };
  const auto expect = [](double value, double sum, std::int64_t terms) {
    EXPECT_NEAR(value, sum, (4.0 + static_cast<double>(terms)) * kEpsilon<T>);
  };
  std::vector<double> expected_dw(dw.size());
  for (std::int64_t row = 0; row < rows; ++row) {
    SCOPED_TRACE(row);
    const std::int64_t expert = expert_of(s, counts, row);
    for (std::int64_t n = 0; n < out; ++n) {
      double sum = 0;
      for (std::int64_t k = 0; k < in && expert < 3; ++k) {
        sum += at(x, row * in + k) * at(w, (expert * in + k) * out + n);
        expected_dw[static_cast<std::size_t>((expert * in + k) * out + n)] +=
            at(x, row * in + k) * at(dy, row * out + n);
      }
      expect(at(y, row * out + n), sum, in);
    }
    for (std::int64_t k = 0; k < in; ++k) {
      double sum = 0;
      for (std::int64_t n = 0; n < out && expert < 3; ++n)
        sum += at(dy, row * out + n) * at(w, (expert * in + k) * out + n);
      expect(at(dx, row * in + k), sum, out);
    }
  }
  for (std::size_t i = 0; i < dw.size(); ++i)
    expect(static_cast<double>(dw[i]), expected_dw[i], rows);
}

// The second are large enough for tile registers, with experts of few rows and of none.
TYPED_TEST(GroupedProducts, AreThoseOfEachExpert) {
  expect_products_of_each_expert<TypeParam>(
      {.ranks = 2, .experts = 3, .room = 5, .in = 4, .out = 6}, {2, 0, 1, 0, 4, 1});
  expect_products_of_each_expert<TypeParam>(
      {.ranks = 2, .experts = 3, .room = 40, .in = 64, .out = 48}, {33, 0, 1, 7, 2, 0});
}

// Values of x, w and dy are small numbers, whose sums are exact; rows behind stay as they are.
TYPED_TEST(GroupedProducts, AddToWhatIsThere) {
  using T = TypeParam;
  const GroupedShape s{.ranks = 1, .experts = 2, .room = 3, .in = 1, .out = 2};
  const Indices counts{1, 1};
  const auto values = [](std::initializer_list<float> list) {
    std::vector<T> result;
    for (const float value : list) result.push_back(static_cast<T>(value));
    return result;
  };
  const auto x = values({3, 5, 7}), w = values({1, 2, 3, 4}), dy = values({1, 1, 2, 1, 1, 1});
  auto y = values({10, 20, 30, 40, 50, 60}), dx = values({100, 90, 80});
  Workspace space(grouped_scratch_bytes<T>(s));
  grouped_forward(s, y.data(), x.data(), w.data(), counts.data(), true, space.span());
  grouped_input_gradient(s, dx.data(), dy.data(), w.data(), counts.data(), true, space.span());
  const auto expect = [](const std::vector<T>& got, const std::vector<float>& expected) {
    for (std::size_t i = 0; i < expected.size(); ++i)
      EXPECT_EQ(static_cast<float>(got[i]), expected[i]) << i;
  };
  expect(y, {13, 26, 45, 60, 50, 60});
  expect(dx, {103, 100, 80});
}

// Of the first part 2 rows are of the first expert and 1 of the third, of the second 1 of each but
// the first; columns 1 and 2 of 4 have biases, and rows behind stay 0.
TYPED_TEST(GroupedProducts, HaveTheBiasesOfTheirExperts) {
  using T = TypeParam;
  const GroupedShape s{.ranks = 2, .experts = 3, .room = 4, .in = 1, .out = 4};
  const ExpertBiases at{.columns = 2, .first = 1};
  const Indices counts{2, 0, 1, 0, 1, 1}, expert{0, 0, 2, -1, 1, 2, -1, -1};
  const std::vector<T> bias{T(1), T(2), T(3), T(4), T(5), T(6)};
  std::vector<T> y(2 * 4 * 4, T(0)), dbias(6, T(7));
  add_expert_biases(s, at, y.data(), bias.data(), counts.data());
  for (std::size_t row = 0; row < 8; ++row)
    for (std::size_t c = 0; c < 4; ++c) {
      const bool has_bias = expert[row] >= 0 && (c == 1 || c == 2);
      const float expected = has_bias ? static_cast<float>(2 * expert[row]) + float(c) : 0.0F;
      EXPECT_EQ(static_cast<float>(y[row * 4 + c]), expected) << row << " " << c;
    }
  expert_bias_gradient(s, at, dbias.data(), y.data(), counts.data(), false);
  const std::vector<T> sums{T(2), T(4), T(3), T(4), T(10), T(12)};
  EXPECT_EQ(dbias, sums);
  expert_bias_gradient(s, at, dbias.data(), y.data(), counts.data(), true);
  EXPECT_EQ(static_cast<float>(dbias[5]), 24);
}

}  // namespace
}  // namespace zplan::exec::cpu
