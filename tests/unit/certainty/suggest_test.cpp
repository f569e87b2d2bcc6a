#include "planner/certainty/suggest.h"

#include <gtest/gtest.h>

#include "planner/cost/reliance.h"

namespace zplan {
namespace {

const Constant kGemm = constant_of(&StackRates::gemm);
const Constant kNetwork = constant_of(&StackRates::network);
const Constant kOptimizer = constant_of(&StackRates::optimizer);

// Products within 20 %, the network within 30 %, the optimizer exactly.
Knowledge open(double run_sd = 0) {
  Knowledge knowledge;
  knowledge.covariance[kGemm][kGemm] = 0.04;
  knowledge.covariance[kNetwork][kNetwork] = 0.09;
  knowledge.run_sd = run_sd;
  return knowledge;
}

std::vector<double> resting(double gemm, double network, double optimizer = 0) {
  std::vector<double> reliances(constant_count());
  reliances[kGemm] = gemm;
  reliances[kNetwork] = network;
  reliances[kOptimizer] = optimizer;
  return reliances;
}

Contender plan(double seconds, std::vector<double> reliances, std::uint64_t key) {
  return {Seconds{seconds}, std::move(reliances), key};
}

Measurement reading_of(std::vector<double> reliances, double noise = kBenchmarkNoise) {
  return {{std::move(reliances), {}, noise}};
}
const Measurement kOfGemm = reading_of(resting(1, 0)), kOfNetwork = reading_of(resting(0, -1)),
                  kOfOptimizer = reading_of(resting(0, 0, 1));

// One computes, the other communicates.
PlanChoice opposites(const Knowledge& knowledge = open()) {
  return {knowledge, {plan(1, resting(0.9, 0), 1), plan(1.02, resting(0, -0.9), 2)}};
}

TEST(PlanChoice, GainsByWhatTheContendersRestOnOppositely) {
  const PlanChoice choice = opposites();
  EXPECT_EQ(choice.chosen(), 0U);
  for (const Measurement& measurement : {kOfGemm, kOfNetwork}) {
    const MeasurementValue value = choice.value_of(measurement);
    EXPECT_GT(value.changes, 25);
    EXPECT_LT(value.changes, 60);
    EXPECT_GT(value.saving, 0.02);
  }
}

TEST(PlanChoice, GainsNothingByWhatTheyRestOnAlike) {
  const PlanChoice choice(open(), {plan(1, resting(0.8, 0), 1), plan(1.02, resting(0.8, 0), 2)});
  const MeasurementValue value = choice.value_of(kOfGemm);
  EXPECT_EQ(value.changes, 0);
  EXPECT_EQ(value.saving, 0);
  EXPECT_EQ(choice.fastest_in(0), kWorlds);
}

TEST(PlanChoice, GainsNothingByWhatIsKnown) {
  const PlanChoice choice(open(),
                          {plan(1, resting(0, 0, 0.9), 1), plan(1.02, resting(0, 0, 0), 2)});
  EXPECT_EQ(choice.value_of(kOfOptimizer).changes, 0);
  EXPECT_EQ(choice.value_of(kOfOptimizer).saving, 0);
  EXPECT_EQ(choice.uncertainty(kOfOptimizer[0]), 0);
  EXPECT_NEAR(choice.uncertainty(kOfNetwork[0]), 0.3, 1e-12);
}

TEST(PlanChoice, GainsNothingByWhatNoContenderRestsOn) {
  const PlanChoice choice(open(), {plan(1, resting(0.9, 0), 1), plan(1.02, resting(0.2, 0), 2)});
  EXPECT_EQ(choice.value_of(kOfNetwork).changes, 0);
}

TEST(PlanChoice, GainsByWhatIsCorrelated) {
  Knowledge knowledge = open();
  knowledge.covariance[kGemm][kNetwork] = knowledge.covariance[kNetwork][kGemm] = -0.05;
  const PlanChoice choice(knowledge, {plan(1, resting(0.9, 0), 1), plan(1.02, resting(0, 0), 2)});
  EXPECT_GT(choice.value_of(kOfNetwork).saving, 0.02);
  EXPECT_LT(choice.value_of(kOfNetwork).saving, choice.value_of(kOfGemm).saving);
}

// [derived] B takes 1 and A e^x, x normal of s = 0.2. Chosen is B, for A is expected to take
// e^(s s / 2). Knowing x saves E[(1 - e^x)+] = 1/2 - e^(s s / 2) Phi(-s) = 0.0708; the mean of 100
// draws has a standard error of 0.01.
TEST(PlanChoice, GainsWhatTheNormalDistributionSays) {
  const PlanChoice choice(open(), {plan(1, resting(1, 0), 1), plan(1, resting(0, 0), 2)});
  EXPECT_EQ(choice.chosen(), 1U);
  EXPECT_NEAR(choice.expected(0).value, 1.0202, 1e-4);
  EXPECT_NEAR(choice.value_of(reading_of(resting(1, 0), 0)).saving, 0.0708, 0.03);
  EXPECT_NEAR(choice.value_of(reading_of(resting(1, 0), 0)).changes, 50, 15);
}

TEST(PlanChoice, GainsLessByNoisyReadings) {
  const PlanChoice choice = opposites();
  const auto saving = [&](double noise) {
    return choice.value_of(reading_of(resting(1, 0), noise)).saving;
  };
  EXPECT_GT(saving(0.03), 1.2 * saving(0.2));
  EXPECT_GT(saving(0.2), 2 * saving(0.8));
  EXPECT_LT(saving(100), 1e-6);
}

TEST(PlanChoice, GainsMoreByTwoReadingsAndMostByAll) {
  const PlanChoice choice = opposites();
  const Measurement both{kOfGemm[0], kOfNetwork[0]};
  const double one = choice.value_of(kOfNetwork).saving, two = choice.value_of(both).saving;
  EXPECT_GT(two, one);
  constexpr double kErrorOfDraws = 0.01;
  EXPECT_GT(choice.perfect().saving, two - kErrorOfDraws);
  EXPECT_LT(choice.perfect().saving, 1.1 * two);
  EXPECT_EQ(choice.perfect().changes, kWorlds - choice.fastest_in(choice.chosen()));
}

TEST(PlanChoice, LearnsThePlansOwnErrorFromItsStep) {
  Knowledge knowledge = open(0.05);
  knowledge.covariance[kGemm][kGemm] = 0;
  const PlanChoice choice(knowledge, {plan(1, resting(0.9, 0), 1), plan(1.02, resting(0.5, 0), 2)});
  EXPECT_EQ(choice.value_of(kOfGemm).changes, 0);
  const Measurement step{{resting(0.9, 0), 0, kStepNoise}};
  EXPECT_GT(choice.value_of(step).changes, 15);
  EXPECT_NEAR(choice.uncertainty(step[0]), 0.05, 1e-12);
  EXPECT_GT(choice.perfect().saving, choice.value_of(step).saving);
}

TEST(PlanChoice, ExpectsWhatIsIdealToBeSlower) {
  Knowledge knowledge = open();
  knowledge.covariance[kGemm][kGemm] = 0;
  knowledge.slower[kGemm] = 0.3;
  const PlanChoice choice(knowledge, {plan(1, resting(1, 0), 1), plan(1.1, resting(0, 0), 2)});
  EXPECT_EQ(choice.chosen(), 1U);
  EXPECT_GT(choice.value_of(kOfGemm).changes, 10);
  EXPECT_LT(choice.value_of(kOfGemm).changes, 50);
}

TEST(PlanChoice, KeepsTheOnlyContender) {
  const PlanChoice choice(open(0.05), {plan(1, resting(0.9, 0), 1)});
  EXPECT_EQ(choice.chosen(), 0U);
  EXPECT_EQ(choice.fastest_in(0), kWorlds);
  EXPECT_EQ(choice.value_of(kOfGemm).changes, 0);
  EXPECT_EQ(choice.perfect().saving, 0);
}

}  // namespace
}  // namespace zplan
