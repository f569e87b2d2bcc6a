#include "exec/host_kernels.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <numeric>
#include <vector>

#include "planner/program/step_scalars.h"

namespace zplan::exec {
namespace {

class HostKernels : public ::testing::Test {
 protected:
  HostKernels() : data_(counting(), "counting"), services_(data_, train_, 1, 3) {}

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
    c.step = step;
    c.services = &services_;
    return c;
  }

  TrainConfig train_;
  DataSource data_;
  RunServices services_;
  std::array<View, 2> views_;
};

TEST_F(HostKernels, EverySampleOfAStepIsLoadedByOneReplicaOnce) {
  constexpr std::int64_t kDp = 2, kBatch = 3, kMicroSteps = 2, kStep = 4, kSequence = 5;
  constexpr std::int64_t kGlobalBatch = kDp * kBatch * kMicroSteps;
  std::vector<std::int64_t> first_samples;
  for (std::int64_t micro = 0; micro < kMicroSteps; ++micro) {
    for (std::int32_t dp_index = 0; dp_index < kDp; ++dp_index) {
      std::vector<std::int32_t> tokens(kBatch * (kSequence + 1));
      const std::array operands{operand(0, tokens, {kBatch, kSequence + 1})};
      KernelCall c = call(operands, kStep);
      c.attributes = {kDp, kGlobalBatch, 0, 0};
      c.env.micro = micro;
      c.dp_index = dp_index;
      load_batch(c);
      for (std::int64_t i = 0; i < kBatch; ++i) {
        const std::int64_t sample = kStep * kGlobalBatch + (micro * kDp + dp_index) * kBatch + i;
        EXPECT_EQ(tokens[static_cast<std::size_t>(i * (kSequence + 1))],
                  data_.sample_start(train_.seed, sample, kSequence));
      }
    }
  }
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

TEST_F(HostKernels, OnlyTheFirstReplicaOfTheLastStageReports) {
  std::vector<double> loss{2.5}, clip{0.5, 7.0};
  const std::array operands{operand(0, loss, {1}), operand(1, clip, {2})};
  for (std::int32_t stage = 0; stage < 2; ++stage) {
    for (std::int32_t dp_index = 0; dp_index < 2; ++dp_index) {
      KernelCall c = call(operands, 1);
      c.stage = stage;
      c.dp_index = dp_index;
      loss[0] = 10 * stage + dp_index;
      report(c);
    }
  }
  EXPECT_EQ(services_.report_of(1).loss, 10);
  EXPECT_EQ(services_.report_of(1).gradient_norm, 7);
  EXPECT_EQ(services_.report_of(0).loss, 0);
}

}  // namespace
}  // namespace zplan::exec
