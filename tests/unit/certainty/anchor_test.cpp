#include "planner/certainty/anchor.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "planner/certainty/interval.h"
#include "planner/cost/reliance.h"

namespace zplan {
namespace {

const Constant kGemm = constant_of(&StackRates::gemm);
const Constant kLoss = constant_of(&StackRates::loss);
const Constant kOverall = constant_of(&StackRates::overall);

Knowledge prior() {
  Knowledge knowledge;
  knowledge.covariance[kGemm][kGemm] = 0.04;
  knowledge.covariance[kLoss][kLoss] = 0.01;
  knowledge.run_sd = 0.1;
  return knowledge;
}

AnchorRun run_of(double log_error, double gemm, double loss) {
  AnchorRun run{log_error, std::vector<double>(constant_count())};
  run.reliances[kGemm] = gemm;
  run.reliances[kLoss] = loss;
  return run;
}

// One constant and one run: the posterior of two normal distributions.
TEST(Anchor, MovesAConstantByItsShareOfTheVariance) {
  const Knowledge after = anchored(prior(), run_of(0.3, 1, 0));
  EXPECT_NEAR(after.mean[kGemm], 0.3 * 0.04 / (0.04 + 0.01), 1e-12);
  EXPECT_NEAR(after.covariance[kGemm][kGemm], 1 / (1 / 0.04 + 1 / 0.01), 1e-12);
  EXPECT_EQ(after.mean[kLoss], 0);
  EXPECT_DOUBLE_EQ(after.covariance[kLoss][kLoss], 0.01);
}

TEST(Anchor, MovesMostWhatIsLeastKnown) {
  const Knowledge after = anchored(prior(), run_of(0.3, 0.5, 0.5));
  EXPECT_NEAR(after.mean[kGemm] / after.mean[kLoss], 4, 1e-9);
  EXPECT_LT(after.covariance[kGemm][kLoss], 0);  // more of one is less of the other
}

TEST(Anchor, NarrowsTheIntervalEvenOfARunThatWasPredictedRight) {
  const AnchorRun run = run_of(0, 0.6, 0.4);
  const Knowledge after = anchored(prior(), run);
  EXPECT_EQ(after.mean[kGemm], 0);
  EXPECT_LT(spread_of(after, run.reliances).sd, spread_of(prior(), run.reliances).sd);
}

TEST(Anchor, PutsWhatTheHardwareLeavesOpenIntoTheOverallFactor) {
  Knowledge knowledge = prior();
  const Constant drives = constant_of(HardwareTime::kDrives);
  knowledge.covariance[drives][drives] = 0.04;
  AnchorRun run = run_of(0.3, 0, 0);
  run.reliances[drives] = 1;
  run.reliances[kOverall] = 1;
  const Knowledge after = anchored(knowledge, run);
  EXPECT_EQ(after.mean[drives], 0);
  EXPECT_NEAR(after.mean[kOverall], 0.3 * 0.04 / (0.04 + 0.01), 1e-12);
}

// A one-sided constant is likeliest as it is predicted.
TEST(Anchor, ARunThatWasPredictedRightMovesNoOneSidedConstantEither) {
  Knowledge knowledge = prior();
  knowledge.slower[kOverall] = 0.2;
  AnchorRun run = run_of(0, 0.5, 0);
  run.reliances[kOverall] = 1;
  const Knowledge after = anchored(knowledge, run);
  EXPECT_EQ(after.mean[kGemm], 0);
  EXPECT_EQ(after.mean[kOverall], 0);
  EXPECT_EQ(after.slower[kOverall], 0);
  EXPECT_LT(spread_of(after, run.reliances).sd, spread_of(knowledge, run.reliances).sd);
  run.log_error = 0.2;
  EXPECT_GT(anchored(knowledge, run).mean[kOverall], 0);
}

TEST(Anchor, MovedRatesStayWithinWhatARateMayBe) {
  Knowledge knowledge = prior();
  const Constant exposed = constant_of(&StackRates::tensor_exposed);
  knowledge.mean[kGemm] = std::log(1.5);
  knowledge.mean[exposed] = std::log(10);
  StackRates rates;
  rates.gemm = 2;
  rates.tensor_exposed = 0.5;
  const auto moved = move_rates(knowledge, rates);
  EXPECT_DOUBLE_EQ(rates.gemm, 3);
  EXPECT_DOUBLE_EQ(rates.tensor_exposed, 1);
  EXPECT_EQ(moved.size(), 2U);
  EXPECT_EQ(knowledge.mean[kGemm], 0);
}

TEST(Anchor, LearnsOnlyFromWhatWasNotExpected) {
  Knowledge knowledge = prior();
  knowledge.mean[kGemm] = 0.1;
  const Knowledge as_expected = anchored(knowledge, run_of(0.1, 1, 0));
  EXPECT_DOUBLE_EQ(as_expected.mean[kGemm], 0.1);
  const Knowledge slower = anchored(knowledge, run_of(0.3, 1, 0));
  EXPECT_NEAR(slower.mean[kGemm], 0.1 + 0.2 * 0.04 / (0.04 + 0.01), 1e-12);
}

TEST(Anchor, NoRateFallsBelowItsLeast) {
  Knowledge knowledge = prior();
  knowledge.mean[kGemm] = std::log(1e-9);
  StackRates rates;
  move_rates(knowledge, rates);
  EXPECT_EQ(rates.gemm, stack_rates()[kGemm].least);
}

TEST(Anchor, MakesItsKindKnown) {
  Evidence evidence;
  evidence.stack.name = "mine";
  const HwProfile node = load_cluster("dgx-h100").node;
  const Kind kind{"H100-SXM5-80GB", "bf16", 16, {"ZeRO 3"}};
  const Knowledge before = knowledge_of(evidence, node, kind);
  ASSERT_FALSE(before.unknown.empty());
  AnchorRun run = run_of(0.2, 0.7, 0.1);
  run.reliances[kOverall] = 1;
  Knowledge learnt = anchored(before, run);
  StackRates rates;
  move_rates(learnt, rates);
  learn(evidence, learnt, rates, kind);
  const Knowledge after = knowledge_of(evidence, node, kind);
  EXPECT_TRUE(after.unknown.empty());
  EXPECT_LT(spread_of(after, run.reliances).sd, spread_of(before, run.reliances).sd);
  EXPECT_GT(evidence.stack.rates.overall, 1);
}

}  // namespace
}  // namespace zplan
