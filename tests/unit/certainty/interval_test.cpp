#include "planner/certainty/interval.h"

#include <gtest/gtest.h>

#include <cmath>

#include "planner/certainty/certainty.h"
#include "planner/cost/reliance.h"

namespace zplan {
namespace {

std::vector<double> reliances(std::initializer_list<Reliance> rows) {
  std::vector<double> result(constant_count());
  for (const Reliance& row : rows) result[row.constant] = row.elasticity;
  return result;
}

const Constant kGemm = constant_of(&StackRates::gemm);
const Constant kLoss = constant_of(&StackRates::loss);

TEST(Interval, IsThePredictionItselfWhereNothingIsOpen) {
  const Spread spread = spread_of(Knowledge{}, reliances({{kGemm, 1}}));
  EXPECT_EQ(spread.sd, 0);
  EXPECT_DOUBLE_EQ(interval_of(Seconds{2}, spread).low.value, 2);
  EXPECT_DOUBLE_EQ(interval_of(Seconds{2}, spread).high.value, 2);
}

TEST(Interval, AddsUpWhatTheTimeRestsOn) {
  Knowledge knowledge;
  knowledge.covariance[kGemm][kGemm] = 0.04;
  knowledge.covariance[kLoss][kLoss] = 0.01;
  knowledge.covariance[kGemm][kLoss] = knowledge.covariance[kLoss][kGemm] = -0.01;
  knowledge.run_sd = 0.1;
  const Spread spread = spread_of(knowledge, reliances({{kGemm, 0.5F}, {kLoss, 0.5F}}));
  EXPECT_NEAR(spread.sd, std::sqrt(0.01 + 0.0025 - 2 * 0.25 * 0.01 + 0.01), 1e-12);
  const TimeInterval interval = interval_of(Seconds{1}, spread);
  EXPECT_NEAR(interval.low.value, std::exp(-1.2816 * spread.sd), 1e-12);
  EXPECT_NEAR(interval.high.value, std::exp(1.2816 * spread.sd), 1e-12);
}

TEST(Interval, OfWhatCanOnlyBeSlowerLiesAbove) {
  Knowledge knowledge;
  knowledge.slower[kGemm] = 0.2;
  const Spread spread = spread_of(knowledge, reliances({{kGemm, 1}}));
  EXPECT_NEAR(spread.mean, 0.2 * std::sqrt(2 / 3.14159265358979), 1e-9);
  EXPECT_NEAR(spread.sd, 0.2 * std::sqrt(1 - 2 / 3.14159265358979), 1e-9);
  const TimeInterval interval = interval_of(Seconds{1}, spread);
  EXPECT_EQ(interval.low.value, 1);
  EXPECT_NEAR(interval.high.value, std::exp(spread.mean + 1.2816 * spread.sd), 1e-12);
}

TEST(Interval, PartsAddUpToItsEnds) {
  Knowledge knowledge;
  knowledge.covariance[kGemm][kGemm] = 0.04;
  knowledge.covariance[kLoss][kLoss] = 0.01;
  knowledge.covariance[kGemm][kLoss] = knowledge.covariance[kLoss][kGemm] = -0.01;
  const Constant memory = constant_of(HardwareTime::kMemory);
  knowledge.slower[memory] = 0.3;
  knowledge.mean[kLoss] = 0.1;
  knowledge.run_sd = 0.1;
  for (const float elasticity : {0.5F, -2.0F}) {
    const std::vector<double> rests =
        reliances({{kGemm, 0.5F}, {kLoss, elasticity}, {memory, 0.25F}});
    const TimeInterval interval = interval_of(Seconds{1}, spread_of(knowledge, rests));
    double low = 0, high = 0;
    const std::vector<SpreadPart> parts = spread_parts(knowledge, rests);
    for (const SpreadPart& part : parts) {
      low += part.low;
      high += part.high;
    }
    EXPECT_EQ(parts.size(), 4U) << "three constants and the run";
    EXPECT_NEAR(low, std::log(interval.low.value), 1e-12);
    EXPECT_NEAR(high, std::log(interval.high.value), 1e-12);
    if (elasticity > 0) {
      EXPECT_EQ(parts[2].low, 0) << "what can only be slower does not lower the lower end";
    }
    EXPECT_GT(parts[2].high, 0);
  }
}

TEST(Certainty, NamesTheBestRunThatAPredictionIsAbove) {
  const HwProfile node = load_cluster("dgx-h100").node;
  MeasuredRuns measured;
  measured.best = {{"H100-SXM5-80GB", "bf16", "some/run", 0.5}};
  const Evidence own{load_stack("own")};
  const std::vector<double> rests = reliances({{kGemm, 1}});
  const auto exceeded = [&](double mfu, const char* format) {
    const Kind kind{"H100-SXM5-80GB", format, 8, {}};
    return certainty_of({Seconds{1}, mfu, rests}, own, measured, node, kind).exceeded;
  };
  ASSERT_TRUE(exceeded(0.51, "bf16"));
  EXPECT_EQ(exceeded(0.51, "bf16")->run, "some/run");
  EXPECT_FALSE(exceeded(0.5, "bf16"));
  EXPECT_FALSE(exceeded(0.51, "fp8"));
}

// A prediction of 60 % of the peak where 40 % is the best ever measured: at 40 % the same step
// takes 60 / 40 times as long.
TEST(Certainty, TheIntervalReachesTheBestThatWasMeasured) {
  const HwProfile node = load_cluster("dgx-h100").node;
  MeasuredRuns measured;
  measured.best = {{"H100-SXM5-80GB", "bf16", "some/run", 0.4}};
  const Kind kind{"H100-SXM5-80GB", "bf16", 8, {}};
  Evidence theirs{load_stack("own")};
  theirs.stack.values = {{"gemm", 0, 1, 0.01, "fitted", "runs"}};
  const std::vector<double> rests = reliances({});
  const Certainty above = certainty_of({Seconds{1}, 0.6, rests}, theirs, measured, node, kind);
  EXPECT_DOUBLE_EQ(above.interval.high.value, 1.5);
  const Certainty below = certainty_of({Seconds{1}, 0.3, rests}, theirs, measured, node, kind);
  EXPECT_LT(below.interval.high.value, 1.5);
  EXPECT_DOUBLE_EQ(above.interval.low.value, below.interval.low.value);
}

}  // namespace
}  // namespace zplan
