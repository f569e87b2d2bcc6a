// Rows of the dispatch table by their attributes, coordinates and optional operands: what a kernel
// alone does not know.
#include <gtest/gtest.h>

#include <cmath>
#include <deque>
#include <limits>
#include <vector>

#include "exec/cpu/dispatch.h"
#include "exec/data_source.h"
#include "exec/host_kernels.h"
#include "planner/program/step_scalars.h"
#include "tests/unit/exec/kernel_test_support.h"

namespace zplan::exec::cpu {
namespace {

// One call; operands are vectors of the test.
class RowCall {
 public:
  explicit RowCall(KernelId kernel, AttributeValues attributes = {}) {
    node_.kernel = kernel;
    call_.node = &node_;
    call_.attributes = attributes;
  }

  template <typename T>
  RowCall& with(std::vector<T>& values, Shape shape, Access access = Access::kRead) {
    View view;
    view.dtype = dtype_of<T>();
    view.access = access;
    view.shape = shape;
    views_.push_back(view);
    operands_.push_back({&views_.back(), reinterpret_cast<std::byte*>(values.data())});
    return *this;
  }

  void run(DType compute) {
    RunServices services(data_, train_, 0, 1);
    call_.services = &services;
    call_.operands = operands_;
    GemmCache gemm;
    const DispatchEntry& entry = dispatch_table(compute)[static_cast<std::size_t>(node_.kernel)];
    if (entry.prepare != nullptr) entry.prepare(call_, gemm);
    entry.run(call_, gemm);
  }

 private:
  Node node_;
  KernelCall call_;
  std::deque<View> views_;
  std::vector<Operand> operands_;
  DataSource data_{{1, 2, 3}, "rows"};
  TrainConfig train_;
};

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

}  // namespace
}  // namespace zplan::exec::cpu
