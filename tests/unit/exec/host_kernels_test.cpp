#include "exec/host_kernels.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <vector>

#include "exec/masked_tokens.h"
#include "planner/program/kernels/masked_tokens.h"
#include "planner/program/step_scalars.h"

namespace zplan::exec {
namespace {

class HostKernels : public ::testing::Test {
 protected:
  static constexpr int kSteps = 20;
  static constexpr std::int64_t kSequence = 5;
  HostKernels()
      : data_(counting(), "counting"), services_({&data_}, kSequence, train_, 1, kSteps) {}

  static std::vector<std::uint8_t> counting() {
    std::vector<std::uint8_t> bytes(200);
    std::iota(bytes.begin(), bytes.end(), std::uint8_t{0});
    return bytes;
  }
  template <typename T>
  Operand operand(std::size_t index, std::vector<T>& values, Shape shape) {
    views_[index].shape = shape;
    return {&views_[index], reinterpret_cast<std::byte*>(values.data())};
  }
  KernelCall call(std::span<const Operand> operands, std::int64_t step) {
    KernelCall c;
    c.operands = operands;
    c.step = c.run_step = step;
    c.services = &services_;
    return c;
  }

  TrainConfig train_;
  DataSource data_;
  RunServices services_;
  std::array<View, 3> views_;
};

TEST_F(HostKernels, EverySampleOfAStepIsLoadedByOneReplicaOnce) {
  constexpr std::int64_t kDp = 2, kBatch = 3, kMicroSteps = 2, kStep = 4;
  constexpr std::int64_t kGlobalBatch = kDp * kBatch * kMicroSteps;
  std::vector<std::int64_t> first_samples;
  for (std::int64_t micro = 0; micro < kMicroSteps; ++micro) {
    for (std::int32_t dp_index = 0; dp_index < kDp; ++dp_index) {
      std::vector<std::int32_t> tokens(kBatch * (kSequence + 1));
      const std::array operands{operand(0, tokens, {kBatch, kSequence + 1})};
      KernelCall c = call(operands, kStep);
      c.attributes = {kDp * kBatch, kGlobalBatch, dp_index * kBatch};
      c.env.micro = micro;
      load_batch(c);
      for (std::int64_t i = 0; i < kBatch; ++i) {
        const std::int64_t sample = kStep * kGlobalBatch + (micro * kDp + dp_index) * kBatch + i;
        EXPECT_EQ(tokens[static_cast<std::size_t>(i * (kSequence + 1))],
                  data_.sample_start(train_.seed, sample, kSequence));
      }
    }
  }
}

TEST_F(HostKernels, APartOfASequenceIsLoadedFromWhereItBegins) {
  std::vector<std::int32_t> tokens(2 * 3);
  const std::array operands{operand(0, tokens, {2, 3})};
  KernelCall c = call(operands, 0);
  c.attributes = {2, 2, 0, 3};
  load_batch(c);
  for (std::int32_t sample = 0; sample < 2; ++sample)
    for (std::int32_t i = 0; i < 3; ++i)
      EXPECT_EQ(tokens[static_cast<std::size_t>(3 * sample + i)],
                data_.sample_start(train_.seed, sample, kSequence) + 3 + i);
}

TEST_F(HostKernels, AMaskedSampleIsTheSameInPartsAndAsksForAFixedNumberOfTokens) {
  constexpr std::int64_t kRow = kSequence + 1, kVocabulary = 256;
  const auto loaded = [&](Loaded what, std::int64_t begin, std::int64_t length) {
    std::vector<std::int32_t> tokens(static_cast<std::size_t>(length));
    const std::array operands{operand(0, tokens, {1, length})};
    KernelCall c = call(operands, 3);
    c.attributes = {1, 1, 0, begin, static_cast<std::int64_t>(what), kVocabulary};
    load_batch(c);
    return tokens;
  };
  const auto text = loaded(Loaded::kText, 0, kRow);
  const auto inputs = loaded(Loaded::kMaskedInputs, 0, kRow);
  const auto targets = loaded(Loaded::kMaskedTargets, 0, kRow);
  EXPECT_EQ(targets.front(), -1);
  std::int64_t asked = 0;
  for (std::size_t i = 0; i < kSequence; ++i) {
    asked += targets[i + 1] >= 0 ? 1 : 0;
    if (targets[i + 1] < 0) {
      EXPECT_EQ(inputs[i], text[i]) << i;
    } else {
      EXPECT_EQ(targets[i + 1], text[i]) << i;
    }
  }
  EXPECT_EQ(asked, masked_tokens(kSequence));
  constexpr std::int64_t kHalf = kSequence / 2;
  for (const std::int64_t begin : {std::int64_t{0}, kHalf}) {
    const auto own = loaded(Loaded::kMaskedInputs, begin, kHalf + 1);
    const auto own_targets = loaded(Loaded::kMaskedTargets, begin, kHalf + 1);
    for (std::int64_t i = 0; i < kHalf; ++i) {
      EXPECT_EQ(own[static_cast<std::size_t>(i)], inputs[static_cast<std::size_t>(begin + i)]);
      EXPECT_EQ(own_targets[static_cast<std::size_t>(i + 1)],
                targets[static_cast<std::size_t>(begin + i + 1)]);
    }
  }
}

// Of ten masked tokens eight are the mask, one stays and one is any other [Devlin19 A.1].
TEST_F(HostKernels, AMaskedTokenIsMostlyTheMaskAndNowAndThenAnother) {
  constexpr std::int64_t kTokens = 200, kVocabulary = 1000;
  constexpr std::int32_t kToken = 5, kMask = kVocabulary - 1;
  std::int64_t masks = 0, others = 0;
  for (std::int64_t sample = 0; sample < 100; ++sample) {
    std::vector<std::int32_t> tokens(kTokens, kToken);
    mask_inputs({.seed = 1, .sample = sample, .sequence = kTokens, .vocabulary = kVocabulary}, 0,
                tokens);
    masks += std::count(tokens.begin(), tokens.end(), kMask);
    others += kTokens - std::count(tokens.begin(), tokens.end(), kMask) -
              std::count(tokens.begin(), tokens.end(), kToken);
  }
  const auto all = static_cast<double>(100 * masked_tokens(kTokens));
  EXPECT_NEAR(static_cast<double>(masks) / all, 0.8, 0.02);
  EXPECT_NEAR(static_cast<double>(others) / all, 0.1, 0.02);
}

TEST_F(HostKernels, ScalarsOfTheFirstStepHaveTEqualToOne) {
  std::vector<double> scalars(kStepScalarCount, -1);
  const std::array operands{operand(0, scalars, {kStepScalarCount})};
  step_scalars(call(operands, 0));
  EXPECT_EQ(scalars[kLearningRate], train_.learning_rate);
  EXPECT_EQ(scalars[kMaxGradientNorm], train_.clip_norm);
  EXPECT_DOUBLE_EQ(scalars[kBiasCorrection1], 1 - train_.beta1);
  EXPECT_DOUBLE_EQ(scalars[kBiasCorrection2], 1 - train_.beta2);
  step_scalars(call(operands, 9));
  EXPECT_DOUBLE_EQ(scalars[kBiasCorrection1], 1 - std::pow(train_.beta1, 10));
  EXPECT_DOUBLE_EQ(scalars[kBiasCorrection2], 1 - std::pow(train_.beta2, 10));
}

TEST_F(HostKernels, ScalarsFollowTheLearningRateSchedule) {
  train_.warmup_steps = 4;
  train_.decay_steps = 8;
  train_.min_learning_rate = 1e-5;
  std::vector<double> scalars(kStepScalarCount, -1);
  const std::array operands{operand(0, scalars, {kStepScalarCount})};
  for (std::int64_t step = 0; step < kSteps; ++step) {
    step_scalars(call(operands, step));
    EXPECT_EQ(scalars[kLearningRate], train_.learning_rate_at(step + 1));
    EXPECT_EQ(scalars[kLossScale], 1.0);
    EXPECT_EQ(scalars[kInactive], 0.0);
  }
}

TEST_F(HostKernels, DelayedUpdatesAreOneStepBehindAndTheFirstStepHasNone) {
  std::vector<double> scalars(kStepScalarCount, -1);
  const std::array operands{operand(0, scalars, {kStepScalarCount})};
  for (std::int64_t step = 0; step < 4; ++step) {
    KernelCall c = call(operands, step);
    c.attributes = {1, 0, 0, 0};
    step_scalars(c);
    EXPECT_EQ(scalars[kInactive], step == 0 ? 1.0 : 0.0);
    if (step > 0) {
      EXPECT_DOUBLE_EQ(scalars[kBiasCorrection1],
                       1 - std::pow(train_.beta1, static_cast<double>(step)));
    }
  }
}

// Update t + 1 is made of micro-batch t, counted over all steps.
TEST_F(HostKernels, UpdatesOfMicroBatchesAreCountedThroughAndTheFirstAreOfNone) {
  constexpr std::int64_t kMicros = 4, kLag = 3;
  train_.warmup_steps = 8;
  std::vector<double> scalars(kStepScalarCount, -1);
  const std::array operands{operand(0, scalars, {kStepScalarCount})};
  for (std::int64_t step = 0; step < 3; ++step)
    for (std::int64_t micro = 0; micro < kMicros; ++micro) {
      KernelCall c = call(operands, step);
      c.env.micro = micro;
      c.attributes = {kLag, kMicros, 0, 0};
      step_scalars(c);
      const std::int64_t update = step * kMicros + micro + 1 - kLag;
      EXPECT_EQ(scalars[kInactive], update < 1 ? 1.0 : 0.0);
      if (update < 1) continue;
      EXPECT_EQ(scalars[kLearningRate], train_.learning_rate_at(update));
      EXPECT_EQ(scalars[kUpdateNumber], static_cast<double>(update - 1));
    }
}

// Scalars of consecutive steps whose clip factors, of the step before each, are given.
class LossScale : public HostKernels {
 protected:
  void step(double clip_factor) {
    clip_[kClipFactor] = clip_factor;
    const std::array operands{operand(0, scalars_, {kStepScalarCount}),
                              operand(1, clip_, {kClipScalarCount}),
                              operand(2, state_, {kLossScaleStateCount})};
    KernelCall c = call(operands, step_++);
    c.rank = 1;
    step_scalars(c);
  }

  std::int64_t step_ = 0;
  std::vector<double> scalars_ = std::vector<double>(kStepScalarCount);
  std::vector<double> clip_ = std::vector<double>(kClipScalarCount);
  std::vector<double> state_ = std::vector<double>(kLossScaleStateCount);
};

TEST_F(LossScale, BeginsAsConfiguredAndDoublesAfterGoodSteps) {
  train_.initial_loss_scale = 1024;
  train_.loss_scale_interval = 3;
  std::vector<double> scales;
  for (int i = 0; i < 8; ++i) {
    step(1);
    scales.push_back(scalars_[kLossScale]);
  }
  EXPECT_EQ(scales, (std::vector<double>{1024, 1024, 1024, 2048, 2048, 2048, 4096, 4096}));
  EXPECT_EQ(services_.report_of(3).loss_scale, 2048);
}

TEST_F(LossScale, IsHalvedAfterAnOverflowThatDoesNotCountAsAnUpdate) {
  train_.initial_loss_scale = 1024;
  train_.loss_scale_interval = 2;
  step(1);
  step(-1);  // step 0 had overflowed: this is the first update again
  EXPECT_EQ(scalars_[kLossScale], 512);
  EXPECT_DOUBLE_EQ(scalars_[kBiasCorrection1], 1 - train_.beta1);
  step(1);
  EXPECT_EQ(scalars_[kLossScale], 512);
  EXPECT_DOUBLE_EQ(scalars_[kBiasCorrection2], 1 - std::pow(train_.beta2, 2));
  step(1);
  EXPECT_EQ(scalars_[kLossScale], 1024);
  EXPECT_EQ(state_[kSkippedSteps], 1);
}

TEST_F(LossScale, DoublesAfterGoodStepsThatFollowEachOther) {
  train_.initial_loss_scale = 1024;
  train_.loss_scale_interval = 3;
  for (const double clip : {1, 1, 1, -1, 1, 1}) step(clip);  // the first one begins
  EXPECT_EQ(scalars_[kLossScale], 512);
  step(1);
  EXPECT_EQ(scalars_[kLossScale], 1024);
}

TEST_F(LossScale, StaysAtLeastOne) {
  train_.initial_loss_scale = 2;
  step(1);
  for (int i = 0; i < 5; ++i) step(-1);
  EXPECT_EQ(scalars_[kLossScale], 1);
}

TEST_F(HostKernels, OnlyTheReportingRankReports) {
  std::vector<double> loss{2.5}, clip{-1, 7.0};
  const std::array operands{operand(0, loss, {1}), operand(1, clip, {2})};
  for (std::int32_t rank = 0; rank < 4; ++rank) {
    KernelCall c = call(operands, 1);
    c.rank = rank;
    loss[0] = 100 + rank;
    report(c);
  }
  EXPECT_EQ(services_.report_of(1).loss, 101);
  EXPECT_EQ(services_.report_of(1).gradient_norm, 7);
  EXPECT_TRUE(services_.report_of(1).skipped);
  EXPECT_EQ(services_.report_of(0).loss, 0);
}

TEST_F(HostKernels, ReportsTheMeanOfLossesThatAreAddedUp) {
  std::vector<double> loss{10}, clip{1, 0};
  const std::array operands{operand(0, loss, {1}), operand(1, clip, {2})};
  KernelCall c = call(operands, 1);
  c.rank = 1;
  c.attributes = {0, 4, 0, 0};
  report(c);
  EXPECT_EQ(services_.report_of(1).loss, 2.5);
}

}  // namespace
}  // namespace zplan::exec
