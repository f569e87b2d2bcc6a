// CUDA kernels of gradients and optimizer states, on the host, against the CPU kernels.
#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "planner/program/step_scalars.h"
#include "tests/unit/exec/cuda/kernels_row_case.h"

namespace zplan::exec::cuda {
namespace {

constexpr auto kSame = RowCase::Reference::kSameTypes;
constexpr DType kStates[] = {DType::kF32, DType::kBf16, DType::kF16};

TEST(CudaStates, AccumulateAndCastRoundOnce) {
  for (const DType from : kStates) {
    for (const DType to : kStates) {
      for (const std::size_t shift : {0, 1}) {
        constexpr std::int64_t n = 2085;
        RowCase sum(KernelId::kAccumulate);
        sum.shifted(shift).with(from, {n}, random_values(n, 1)).sum(to, {n}, true, 2);
        sum.run<float>(kSame, DType::kF32).expect_same(1);
        RowCase copy(KernelId::kCast);
        copy.shifted(shift).with(from, {n}, random_values(n, 3)).out(to, {n});
        copy.run<float>(kSame, DType::kF32).expect_same(1);
      }
    }
  }
}

TEST(CudaStates, FillZeroFillsAllAndNoMore) {
  for (const std::int64_t n : {1, 7, 2085}) {
    for (const DType type : {DType::kF64, DType::kF32, DType::kBf16}) {
      for (const std::size_t shift : {0, 1}) {
        RowCase row(KernelId::kFillZero);
        row.shifted(shift).out(type, {n}).run<float>(kSame, DType::kF32);
        for (std::size_t i = 0; i < row.elements(0); ++i) ASSERT_EQ(row.actual(0, i), 0.0);
      }
    }
  }
}

// Sums of doubles differ by their order alone.
TEST(CudaStates, SquaresOfWhatCountsAreAddedUp) {
  for (const DType type : kStates) {
    for (const std::int64_t n : {1, 30, 2500}) {
      for (const std::int64_t shared_from : {-1, 45}) {
        for (const std::int32_t tp : {0, 1}) {
          RowCase row(KernelId::kSumSquares, {n == 30 ? n : 0, shared_from, tp});
          row.shifted(tp == 1 ? 1 : 0).with(type, {n}, random_values(n, 1));
          row.shifted(0).with(DType::kF64, {1}, {0.5}, Access::kUpdate);
          row.run<float>();
          EXPECT_NEAR(row.actual(1, 0), row.expected(1, 0), 1e-12 * row.expected(1, 0));
        }
      }
    }
  }
}

TEST(CudaStates, SquaresOfCopiesDoNotCount) {
  RowCase row(KernelId::kSumSquares, {0, -1, 0, 1});
  row.with(DType::kF32, {4}, {1, 2, 3, 4}).with(DType::kF64, {1}, {0.5}, Access::kUpdate);
  row.run<float>();
  EXPECT_EQ(row.actual(1, 0), 0.5);
}

RowCase clip_case(double squares, double most, double scale, std::int64_t rounds) {
  std::vector<double> scalars(kStepScalarCount, 1.0);
  scalars[kMaxGradientNorm] = most;
  scalars[kLossScale] = scale;
  RowCase row(KernelId::kClipCoefficient, {rounds});
  row.with(DType::kF64, {1}, {squares}).with(DType::kF64, {kStepScalarCount}, scalars);
  row.out(DType::kF64, {2}).run<float>();
  return row;
}

TEST(CudaStates, ClipCoefficientIsThatOfTheCpu) {
  for (const double squares : {0.0, 0.3, 9.7, 1e9})
    for (const double most : {0.0, -1.0, 0.5, 100.0})
      for (const double scale : {1.0, 1024.0})
        for (const std::int64_t rounds : {0, 1})
          clip_case(squares, most, scale, rounds).expect_same(2);
}

TEST(CudaStates, NormsThatAreNotFiniteSkipTheUpdate) {
  EXPECT_EQ(clip_case(INFINITY, 1, 1, 0).actual(2, kClipFactor), -1.0);
  EXPECT_EQ(clip_case(INFINITY, 1, 1, 0).actual(2, kGradientNorm), INFINITY);
  EXPECT_EQ(clip_case(NAN, 1, 1, 0).actual(2, kClipFactor), -1.0);
  EXPECT_TRUE(std::isnan(clip_case(NAN, 1, 1, 1).actual(2, kGradientNorm)));
}

// ---- AdamW --------------------------------------------------------------------------------------

struct AdamwCase {
  DType master, moment, grad;
  std::int64_t n = 101;
  std::size_t shift = 0;
  std::int64_t flat = 0;  // elements before
  double factor = 0.5, inactive = 0;

  RowCase run(DType param) const {
    std::vector<double> scalars(kStepScalarCount, 0.0);
    scalars[kLearningRate] = 0.01;
    scalars[kBeta1] = 0.9;
    scalars[kBeta2] = 0.99;
    scalars[kEpsilon] = 1e-8;
    scalars[kWeightDecay] = 0.1;
    scalars[kBiasCorrection1] = 0.19;
    scalars[kBiasCorrection2] = 0.0199;
    scalars[kInactive] = inactive;
    scalars[kUpdateNumber] = 3;
    std::vector<double> second_moments = random_values(n, 3, 0.05);
    for (double& value : second_moments) value = std::abs(value) + 0.01;
    // the first 43 elements of the unit decay, a border within a pack; unit 5
    RowCase row(KernelId::kAdamW, {flat, 43, 5});
    row.in({.micro = 0, .layer = 7, .tile = 2}).shifted(shift);
    row.with(master, {n}, random_values(n, 1), Access::kUpdate);
    row.with(moment, {n}, random_values(n, 2, 0.1), Access::kUpdate);
    row.with(moment, {n}, second_moments, Access::kUpdate);
    row.with(grad, {n}, random_values(n, 4)).shifted(0);
    row.with(DType::kF64, {kStepScalarCount}, scalars);
    row.with(DType::kF64, {2}, {factor, 1.0});
    if (param != DType::kI32) row.shifted(shift).out(param, {n});
    row.run<float>(kSame, DType::kF32);
    return row;
  }
};

// A float result may differ by a few roundings, as its sums are fused or not. A 16-bit one that is
// rounded at random then differs seldom, by one unit at most: by chance 8 * 2^-23 / 2^-10 of 101.
void expect_updated(const RowCase& row, std::size_t operand, DType type) {
  int different = 0;
  for (std::size_t i = 0; i < row.elements(operand); ++i) {
    const double actual = row.actual(operand, i), expected = row.expected(operand, i);
    if (type == DType::kF32) {
      ASSERT_NEAR(actual, expected, 8 * epsilon(type) * std::max(std::abs(expected), 0.05)) << i;
    } else {
      different += actual != expected ? 1 : 0;
      ASSERT_NEAR(actual, expected, 2 * half_unit(type, 2 * expected)) << i;
    }
  }
  EXPECT_LE(different, 1);
}

TEST(CudaStates, AdamwUpdatesStatesOfAllTypes) {
  const DType params[] = {DType::kI32, DType::kF32, DType::kBf16, DType::kF16};
  std::size_t next = 0;
  for (const DType master : kStates) {
    for (const DType moment : kStates) {
      for (const DType grad : kStates) {
        const DType param = params[next++ % 4];
        const bool even = next % 3 != 0;
        const RowCase row = AdamwCase{.master = master,
                                      .moment = moment,
                                      .grad = grad,
                                      .shift = next % 5 == 0 ? std::size_t{1} : 0,
                                      .flat = even ? 12 : 13}
                                .run(param);
        expect_updated(row, 0, master);
        expect_updated(row, 1, moment);
        expect_updated(row, 2, moment);
        if (param != DType::kI32) {
          for (std::size_t i = 0; i < row.elements(6); ++i)
            ASSERT_NEAR(row.actual(6, i), row.actual(0, i), half_unit(param, row.actual(0, i)));
        }
      }
    }
  }
}

TEST(CudaStates, SgdUpdatesStatesOfAllTypes) {
  for (const DType master : kStates) {
    for (const bool momentum : {false, true}) {
      for (const std::int64_t flat : {12, 13}) {
        constexpr std::int64_t n = 101;
        std::vector<double> scalars(kStepScalarCount, 0.0);
        scalars[kLearningRate] = 0.01;
        scalars[kBeta1] = 0.9;
        scalars[kWeightDecay] = 0.1;
        scalars[kUpdateNumber] = 3;
        RowCase row(momentum ? KernelId::kSgdMomentum : KernelId::kSgd, {flat, 43, 5});
        row.in({.micro = 0, .layer = 7, .tile = 2});
        row.with(master, {n}, random_values(n, 1), Access::kUpdate);
        if (momentum) row.with(DType::kF32, {n}, random_values(n, 2, 0.1), Access::kUpdate);
        row.with(DType::kF32, {n}, random_values(n, 4));
        row.with(DType::kF64, {kStepScalarCount}, scalars);
        row.with(DType::kF64, {2}, {0.5, 1.0});
        row.out(DType::kBf16, {n});
        row.run<float>(kSame, DType::kF32);
        expect_updated(row, 0, master);
        if (momentum) expect_updated(row, 1, DType::kF32);
      }
    }
  }
}

TEST(CudaStates, SkippedUpdatesOnlyWriteTheParameters) {
  for (const bool negative : {false, true}) {
    const RowCase row = AdamwCase{.master = DType::kBf16,
                                  .moment = DType::kF32,
                                  .grad = DType::kF32,
                                  .factor = negative ? -1.0 : 0.5,
                                  .inactive = negative ? 0.0 : 1.0}
                            .run(DType::kF16);
    for (const std::size_t operand : {0, 1, 2, 6}) row.expect_same(operand);
  }
}

}  // namespace
}  // namespace zplan::exec::cuda
