#include "planner/cli/frame/departures.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "planner/cli/frame/words.h"

namespace zplan {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

Plan plan_with(const std::string& kernel_set = "cpu.f32") {
  Plan plan;
  plan.kernel_set = kernel_set;
  plan.precision = default_recipe(kernel_set);
  return plan;
}

TEST(Departures, ThereAreNoneInPlansThatChangeTheOrderOfSumsOnly) {
  Plan plan = plan_with();
  plan.parallel = {.dp = 2, .tp = 2, .pp = 2};
  plan.zero_stage = 1;
  plan.placement.optimizer = Tier::kCpu;
  plan.schedule = Schedule::kInterleaved;
  EXPECT_THAT(departures(plan), IsEmpty());
  for (const std::string& line : plan_lines(plan))
    EXPECT_THAT(line, ::testing::Not(HasSubstr("unlike plain training")));
}

TEST(Departures, AreStaleParametersOfDelayedUpdatesAndOfPipelinesWithoutFlush) {
  Plan delayed = plan_with(), unflushed = plan_with();
  delayed.delayed_update = true;
  unflushed.schedule = Schedule::kDoubleBuffered;
  unflushed.parallel.pp = 2;
  for (const Plan& plan : {delayed, unflushed})
    EXPECT_THAT(departures(plan),
                ElementsAre(HasSubstr("without the gradients of the step before it")));
}

TEST(Departures, AreUpdatesAfterEachMicroBatch) {
  Plan plan = plan_with();
  plan.schedule = Schedule::kWeightStashing;
  plan.parallel.pp = 2;
  EXPECT_THAT(departures(plan), ElementsAre(HasSubstr("piece i of 2 trains on parameters 2 - i")));
}

TEST(Departures, AreChoicesThatAreDropped) {
  Plan plan = plan_with();
  plan.capacity_factor = 1;
  EXPECT_THAT(departures(plan), ElementsAre(HasSubstr("beyond their capacity")));
}

TEST(Departures, AreWhatOptimizersMakeOfWholeTensors) {
  const auto of = [](OptimizerKind kind) {
    Plan plan = plan_with();
    plan.optimizer.kind = kind;
    return departures(plan);
  };
  EXPECT_THAT(of(OptimizerKind::kAdamW8Bit), ElementsAre(HasSubstr("8 bits, in blocks of 256")));
  EXPECT_THAT(of(OptimizerKind::kMuon), ElementsAre(HasSubstr("orthogonally as they are stored")));
  EXPECT_THAT(of(OptimizerKind::kAdafactor), ElementsAre(HasSubstr("means by row and column")));
  EXPECT_THAT(of(OptimizerKind::kSgdMomentum), IsEmpty());
}

TEST(Departures, AreFrozenMatricesOfFourBits) {
  Plan plan = plan_with();
  plan.train.what = Trained::kLora;
  EXPECT_THAT(departures(plan), IsEmpty());
  plan.train.base = BaseType::kNf4Double;
  EXPECT_THAT(departures(plan), ElementsAre(HasSubstr("NormalFloat, in blocks of 64 with a scale "
                                                      "of 8 bits")));
}

TEST(Departures, AreRoundedOperandsReductionsAndUpdates) {
  EXPECT_THAT(departures(plan_with("cpu.f32.fp8")),
              ElementsAre(HasSubstr("in blocks of the whole")));
  EXPECT_THAT(departures(plan_with("cpu.f32.fp8.whole")),
              ElementsAre(HasSubstr("of a replica's micro-batch")));
  EXPECT_THAT(departures(plan_with("cuda.sm90.fp8")),
              ElementsAre(HasSubstr("rounded to fp8, with a scale for what a rank has of each")));
  Plan plan = plan_with("cpu.bf16");
  EXPECT_THAT(departures(plan), IsEmpty());
  plan.precision = *find_recipe("half-reduction", plan.kernel_set);
  EXPECT_THAT(departures(plan), ElementsAre("gradients reduced in bf16"));
  plan.precision = *find_recipe("lean", plan.kernel_set);
  EXPECT_THAT(departures(plan), ElementsAre("updates rounded to bf16 stochastically"));
}

}  // namespace
}  // namespace zplan
