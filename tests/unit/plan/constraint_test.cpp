#include "planner/plan/constraint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "planner/core/error.h"

namespace zplan {
namespace {

using ::testing::HasSubstr;

std::string refusal(const std::string& typed, bool only) {
  try {
    only ? Constraint::only(typed) : Constraint::never(typed);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(Constraint, OnlyAllowsTheValuesNamed) {
  const Constraint zero = Constraint::only("zero=2,3");
  Plan plan;
  for (const int stage : {0, 1, 2, 3}) {
    plan.zero_stage = stage;
    EXPECT_EQ(zero.allows(plan), stage >= 2);
  }
  EXPECT_EQ(zero.option(), "--only zero=2,3");
}

TEST(Constraint, NotAllowsAllOthers) {
  const Constraint homes = Constraint::never("optimizer=nvme");
  Plan plan;
  EXPECT_TRUE(homes.allows(plan));
  plan.placement.optimizer = Tier::kNvme;
  EXPECT_FALSE(homes.allows(plan));
}

TEST(Constraint, TakesRangesSwitchesAndWords) {
  Plan plan;
  plan.parallel.tp = 4;
  plan.recompute = {{Recompute::kFull}};
  EXPECT_TRUE(Constraint::only("tp=2..8").allows(plan));
  EXPECT_FALSE(Constraint::only("tp=1..3,5").allows(plan));
  EXPECT_TRUE(Constraint::only("tp=4..4").allows(plan));
  EXPECT_TRUE(Constraint::only("recompute=full").allows(plan));
  EXPECT_FALSE(Constraint::only("sp=yes").allows(plan));
  plan.parallel.sequence_parallel = true;
  EXPECT_TRUE(Constraint::only("sp=yes").allows(plan));
  EXPECT_FALSE(Constraint::never("recomputation").allows(plan));
}

TEST(Constraint, OffloadIsAnyStateOffTheGpu) {
  const Constraint stays = Constraint::never("offload");
  Plan plan;
  EXPECT_TRUE(stays.allows(plan));
  plan.placement.activations = Tier::kCpu;
  EXPECT_FALSE(stays.allows(plan));
  plan.placement.activations = Tier::kGpu;
  plan.recompute.front().on_nvme = {LayerOperator::kFc1};
  EXPECT_FALSE(stays.allows(plan));
  EXPECT_TRUE(Constraint::never("cpu").allows(plan));
  EXPECT_FALSE(Constraint::never("nvme").allows(plan));
  Plan with_states;
  with_states.offload.master = true;
  EXPECT_FALSE(stays.allows(with_states)) << "states that the GPU brings for its update";
}

TEST(Constraint, TraitsBeginWithTwoRanksAndTheFirstStage) {
  Plan plan;
  for (const char* trait : {"tensor", "pipeline", "sharding"})
    EXPECT_TRUE(Constraint::never(trait).allows(plan)) << trait;
  plan.parallel.tp = plan.parallel.pp = 2;
  plan.zero_stage = 1;
  for (const char* trait : {"tensor", "pipeline", "sharding"})
    EXPECT_FALSE(Constraint::never(trait).allows(plan)) << trait;
}

TEST(Constraint, SaysWhatItExpects) {
  EXPECT_THAT(refusal("zerro=2", true), HasSubstr("did you mean \"zero\""));
  EXPECT_THAT(refusal("ofload", false), HasSubstr("did you mean \"offload\""));
  EXPECT_THAT(refusal("zero=7", true), HasSubstr("from 0 to 3"));
  EXPECT_THAT(refusal("zero=", true), HasSubstr("values of zero"));
  EXPECT_THAT(refusal("tp=8..2", false), HasSubstr("a range of whole numbers"));
  EXPECT_THAT(refusal("prefetch=2", true), HasSubstr("--prefetch pins it"));
}

}  // namespace
}  // namespace zplan
