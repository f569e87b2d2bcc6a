// Rows of the dispatch table by their attributes, coordinates and optional operands: what a kernel
// alone does not know.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "planner/program/step_scalars.h"
#include "tests/unit/exec/cpu/row_call.h"

namespace zplan::exec::cpu {
namespace {

std::vector<double> scalars_of_a_step() {
  std::vector<double> scalars(kStepScalarCount);
  scalars[kLearningRate] = 0.1;
  scalars[kBeta1] = 0.9;
  scalars[kBeta2] = 0.99;
  scalars[kBiasCorrection1] = 0.1;
  scalars[kBiasCorrection2] = 0.01;
  scalars[kMaxGradientNorm] = 1.0;
  scalars[kLossScale] = 1.0;
  return scalars;
}

TEST(Rows, OnlyTheFirstPieceOfAVocabularyAddsPositions) {
  std::vector<std::int32_t> tokens{0, 3, -1};
  std::vector<double> wte{1, 2}, wpe{10, 20}, low(2), high(2), all(2);
  std::vector<double> whole{1, 2, 3, 4};
  RowCall(KernelId::kEmbeddingForward, {0})
      .with(tokens, {1, 3})
      .with(wte, {2, 1})
      .with(low, {1, 2, 1})
      .with(wpe, {2, 1})
      .run(DType::kF64);
  wte = {3, 4};
  RowCall(KernelId::kEmbeddingForward, {2})
      .with(tokens, {1, 3})
      .with(wte, {2, 1})
      .with(high, {1, 2, 1})
      .with(wpe, {2, 1})
      .run(DType::kF64);
  RowCall(KernelId::kEmbeddingForward)
      .with(tokens, {1, 3})
      .with(whole, {4, 1})
      .with(all, {1, 2, 1})
      .with(wpe, {2, 1})
      .run(DType::kF64);
  EXPECT_EQ(low, (std::vector<double>{11, 20}));
  EXPECT_EQ(high, (std::vector<double>{0, 4}));
  EXPECT_EQ(all, (std::vector<double>{11, 24}));
  RowCall(KernelId::kEmbeddingForward)
      .with(tokens, {1, 3})
      .with(whole, {4, 1})
      .with(all, {1, 2, 1})
      .run(DType::kF64);
  EXPECT_EQ(all, (std::vector<double>{1, 4}));
}

TEST(Rows, SharedElementsCountOnTheFirstTensorRankOnly) {
  std::vector<double> x{1, 2, 3, 4};
  const auto sum_at = [&](std::int64_t tp, std::int64_t shard, std::int64_t shared_from) {
    std::vector<double> sum{100};
    RowCall(KernelId::kSumSquares, {4 * shard, shared_from, tp})
        .with(x, {4})
        .with(sum, {1}, Access::kUpdate)
        .run(DType::kF64);
    return sum[0] - 100;
  };
  EXPECT_EQ(sum_at(0, 0, 2), 30);
  EXPECT_EQ(sum_at(1, 0, 2), 5);   // elements 0 and 1
  EXPECT_EQ(sum_at(1, 1, 2), 0);   // all of the second shard are shared
  EXPECT_EQ(sum_at(1, 1, 7), 14);  // flat elements 4, 5, 6
  EXPECT_EQ(sum_at(1, 0, 9), 30);
  EXPECT_EQ(sum_at(1, 1, -1), 30);  // none is shared
}

TEST(Rows, ClippingTakesTheLossScaleOut) {
  std::vector<double> sum{64.0 * 64 * 16}, scalars = scalars_of_a_step(), clip(2);
  scalars[kLossScale] = 64;
  const auto run = [&] {
    RowCall(KernelId::kClipCoefficient)
        .with(sum, {1})
        .with(scalars, {kStepScalarCount})
        .with(clip, {2})
        .run(DType::kF16);
  };
  run();
  EXPECT_DOUBLE_EQ(clip[kGradientNorm], 4);
  EXPECT_DOUBLE_EQ(clip[kClipFactor], 1 / (4 + 1e-6) / 64);
  scalars[kMaxGradientNorm] = 0;
  run();
  EXPECT_DOUBLE_EQ(clip[kClipFactor], 1.0 / 64);
  sum[0] = std::numeric_limits<double>::infinity();
  run();
  EXPECT_LT(clip[kClipFactor], 0);
}

// A step of float states with bf16 gradients and parameters.
struct AdamwCall {
  std::vector<float> master{1, 2, 3}, m{0, 0, 0}, v{0, 0, 0};
  std::vector<Bf16> grad{Bf16(1), Bf16(1), Bf16(1)}, param{Bf16(7), Bf16(7), Bf16(7)};
  std::vector<double> scalars = scalars_of_a_step(), clip{1, 1};

  void run() {
    RowCall(KernelId::kAdamW, {0, 0, 1})
        .with(master, {3}, Access::kUpdate)
        .with(m, {3}, Access::kUpdate)
        .with(v, {3}, Access::kUpdate)
        .with(grad, {3})
        .with(scalars, {kStepScalarCount})
        .with(clip, {2})
        .with(param, {3}, Access::kWrite)
        .run(DType::kBf16);
  }
};

TEST(Rows, AdamwMovesTheMasterAndWritesTheParameter) {
  AdamwCall call;
  call.run();
  EXPECT_NEAR(call.master[0], 0.9, 1e-6);
  EXPECT_EQ(static_cast<float>(call.param[0]), static_cast<float>(Bf16(call.master[0])));
}

TEST(Rows, ANegativeClipFactorOrAnInactiveStepLeavesTheStatesAndWritesTheParameter) {
  for (const bool inactive : {false, true}) {
    AdamwCall call;
    if (inactive) call.scalars[kInactive] = 1;
    if (!inactive) call.clip[kClipFactor] = -1;
    call.grad[0] = Bf16(std::nanf(""));
    call.run();
    EXPECT_EQ(call.master, (std::vector<float>{1, 2, 3}));
    EXPECT_EQ(call.m, (std::vector<float>{0, 0, 0}));
    EXPECT_EQ(call.v, (std::vector<float>{0, 0, 0}));
    EXPECT_EQ(static_cast<float>(call.param[2]), 3.0f);
  }
}

TEST(Rows, TheLossScaleReachesTheGradientButNotTheLoss) {
  std::vector<std::int32_t> tokens{9, 1, 0};
  std::vector<double> logits{0, 0, 0, 0}, plain = logits, loss{0}, plain_loss{0};
  std::vector<double> scalars = scalars_of_a_step();
  scalars[kLossScale] = 8;
  RowCall(KernelId::kCrossEntropy, {2, 2})
      .with(plain, {2, 2}, Access::kUpdate)
      .with(tokens, {1, 3})
      .with(plain_loss, {1}, Access::kUpdate)
      .run(DType::kF64);
  RowCall(KernelId::kCrossEntropy, {2, 2})
      .with(logits, {2, 2}, Access::kUpdate)
      .with(tokens, {1, 3})
      .with(loss, {1}, Access::kUpdate)
      .with(scalars, {kStepScalarCount})
      .run(DType::kF64);
  EXPECT_NEAR(loss[0], std::log(2.0), 1e-15);
  EXPECT_EQ(loss, plain_loss);
  EXPECT_EQ(plain, (std::vector<double>{0.25, -0.25, -0.25, 0.25}));
  EXPECT_EQ(logits, (std::vector<double>{2, -2, -2, 2}));
}

// Two sequences of 70 tokens, a vocabulary of 5 in pieces of 4 on two tensor ranks.
TEST(Rows, ParallelLossEqualsTheWholeOne) {
  const std::int64_t rows = 140;
  std::vector<std::int32_t> tokens(142);
  for (std::size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<std::int32_t>(i * 3 % 5);
  auto whole = random_values<double>(rows * 8, 1, 4.0);
  std::vector<double> pieces[2], statistics(2 * rows * 3), loss{1}, part_loss[2] = {{1}, {1}};
  for (std::size_t at = 0; at < whole.size(); ++at) pieces[at % 8 / 4].push_back(whole[at]);
  RowCall(KernelId::kCrossEntropy, {5, rows})
      .with(whole, {rows, 8}, Access::kUpdate)
      .with(tokens, {2, 71})
      .with(loss, {1}, Access::kUpdate)
      .run(DType::kF64);
  for (std::int32_t tp = 0; tp < 2; ++tp) {
    std::vector<double> own(static_cast<std::size_t>(rows * 3));
    RowCall(KernelId::kCrossEntropyStatistics, {5, 0, 4 * tp})
        .with(pieces[tp], {rows, 4})
        .with(tokens, {2, 71})
        .with(own, {rows, 3}, Access::kWrite)
        .run(DType::kF64);
    std::copy(own.begin(), own.end(), statistics.begin() + tp * rows * 3);
  }
  for (std::int32_t tp = 0; tp < 2; ++tp) {
    RowCall(KernelId::kCrossEntropyParallel, {5, rows, 4 * tp})
        .with(pieces[tp], {rows, 4}, Access::kUpdate)
        .with(tokens, {2, 71})
        .with(statistics, {2, rows, 3})
        .with(part_loss[tp], {1}, Access::kUpdate)
        .run(DType::kF64);
    EXPECT_NEAR(part_loss[tp][0], loss[0], 1e-12);
  }
  std::vector<double> expected[2];
  for (std::size_t at = 0; at < whole.size(); ++at) expected[at % 8 / 4].push_back(whole[at]);
  for (int tp = 0; tp < 2; ++tp) expect_near(pieces[tp], expected[tp], 8);
}

TEST(Rows, CastAndAccumulateMixTypes) {
  std::vector<Bf16> half{Bf16(1.5f), Bf16(-2)};
  std::vector<float> wide(2), sum{1, 1};
  RowCall(KernelId::kCast).with(half, {2}).with(wide, {2}, Access::kWrite).run(DType::kBf16);
  RowCall(KernelId::kAccumulate).with(half, {2}).with(sum, {2}, Access::kUpdate).run(DType::kBf16);
  EXPECT_EQ(wide, (std::vector<float>{1.5f, -2}));
  EXPECT_EQ(sum, (std::vector<float>{2.5f, -1}));
}

template <typename T>
class ProductRows : public testing::Test {};
using ProductTypes = testing::Types<float, double>;
TYPED_TEST_SUITE(ProductRows, ProductTypes);

// y = x w and dx = dy w^T of x[9,21], w[21,17].
TYPED_TEST(ProductRows, AddWhereTheyAreTold) {
  using T = TypeParam;
  auto x = random_values<T>(9 * 21, 1), w = random_values<T>(21 * 17, 2);
  auto dy = random_values<T>(9 * 17, 3);
  for (const bool adds : {false, true}) {
    const Access access = adds ? Access::kUpdate : Access::kWrite;
    auto y = buffer<T>(9 * 17), dx = buffer<T>(9 * 21);
    RowCall(KernelId::kMatmulForward)
        .with(x, {9, 21})
        .with(w, {21, 17})
        .with(y, {9, 17}, access)
        .scratch(Bytes{1 << 21})
        .run(dtype_of<T>());
    RowCall(KernelId::kLinearInputGradient)
        .with(dy, {9, 17})
        .with(w, {21, 17})
        .with(dx, {9, 21}, access)
        .scratch(Bytes{1 << 21})
        .run(dtype_of<T>());
    std::vector<double> expected_y(y.size(), adds ? 77.0 : 0.0),
        expected_dx(dx.size(), adds ? 77.0 : 0.0);
    for (std::size_t t = 0; t < 9; ++t) {
      for (std::size_t i = 0; i < 21; ++i) {
        for (std::size_t j = 0; j < 17; ++j) {
          expected_y[t * 17 + j] += double{x[t * 21 + i]} * double{w[i * 17 + j]};
          expected_dx[t * 21 + i] += double{dy[t * 17 + j]} * double{w[i * 17 + j]};
        }
      }
    }
    expect_near(y, expected_y, 40);
    expect_near(dx, expected_dx, 40);
  }
}

template <typename T>
class HalfProductRows : public testing::Test {};
using HalfTypes = testing::Types<Bf16, Fp16>;
TYPED_TEST_SUITE(HalfProductRows, HalfTypes);

// dw = x^T dy and dbias = column sums of dy; of dw and dbias each may be added to alone.
TYPED_TEST(HalfProductRows, WeightGradientsOfBothTypesAreTheSameSums) {
  using T = TypeParam;
  auto x = random_values<T>(37 * 50, 1), dy = random_values<T>(37 * 41, 2);
  auto dw = buffer<T>(50 * 41), dbias = buffer<T>(41);
  auto main_dw = buffer<float>(50 * 41), main_dbias = buffer<float>(41), sums = main_dbias;
  const auto run = [&](auto& weights, auto& biases, Access of_biases) {
    RowCall(KernelId::kLinearWeightGradient)
        .with(x, {37, 50})
        .with(dy, {37, 41})
        .with(weights, {50, 41}, Access::kWrite)
        .with(biases, {41}, of_biases)
        .scratch(Bytes{1 << 21})
        .run(dtype_of<T>());
  };
  run(dw, dbias, Access::kWrite);
  run(main_dw, main_dbias, Access::kWrite);
  expect_same(dw, converted<T>(main_dw));
  expect_same(dbias, converted<T>(main_dbias));
  for (std::size_t i = 0; i < 50; ++i) {
    for (std::size_t j = 0; j < 41; ++j) {
      double expected = 0;
      for (std::size_t t = 0; t < 37; ++t)
        expected += static_cast<double>(x[t * 50 + i]) * static_cast<double>(dy[t * 41 + j]);
      ASSERT_NEAR(main_dw[i * 41 + j], expected, 1e-4);
    }
  }
  run(main_dw, sums, Access::kUpdate);
  for (std::size_t j = 0; j < 41; ++j) ASSERT_NEAR(sums[j], main_dbias[j] + 77, 1e-4);
}

}  // namespace
}  // namespace zplan::exec::cpu
