// Secondary shards where the pairwise cover has no place for them: within sharding groups, and with
// what changes the numbers that are trained. They change no bit of them.
#include <gtest/gtest.h>

#include "planner/program/kernel_set.h"
#include "planner/program/verify.h"
#include "tests/support/plan_space.h"
#include "tests/support/trained.h"

namespace zplan {
namespace {

Plan plan_of(const char* kernel_set, const char* recipe = "standard") {
  Plan plan = testing_support::base_plan(kernel_set);
  plan.precision = *find_recipe(recipe, kernel_set);
  plan.loss_scaling = find_kernel_set(kernel_set).loss_scaling;
  plan.zero_stage = 3;
  plan.parallel.dp = 4;
  plan.batch.micro_batch = 1;
  return plan;
}

void expect_the_same_with_secondary_shards(Plan plan, const std::string& name) {
  exec::RunOptions options;
  options.steps = testing_support::steps_of(3);
  const auto expected = testing_support::train(plan, options);
  plan.secondary = 2;
  const auto got = testing_support::train(plan, options);
  EXPECT_TRUE(verify(got->job).empty()) << name;
  EXPECT_EQ(exec::replica_mismatch(got->job, got->result.memory), std::nullopt) << name;
  testing_support::expect_same_bits(*got, *expected, name);
}

TEST(SecondaryShards, WithinShardingGroupsChangeNoBit) {
  for (const RankOrder order : {RankOrder::kDataFirst, RankOrder::kPipelineFirst}) {
    Plan plan = plan_of("cpu.f64");
    plan.parallel = {.dp = 8, .shards = 4};
    plan.order = order;
    expect_the_same_with_secondary_shards(plan, std::string(name(order)));
  }
}

TEST(SecondaryShards, OfParametersThatAreCastChangeNoBit) {
  for (const Tier tier : {Tier::kGpu, Tier::kCpu}) {
    Plan plan = plan_of("cpu.bf16", "fsdp");
    plan.placement.params = plan.placement.optimizer = tier;
    expect_the_same_with_secondary_shards(plan, std::string(name(tier)));
  }
}

TEST(SecondaryShards, OfOneStepAgoChangeNoBit) {
  Plan plan = plan_of("cpu.f32");
  plan.placement.optimizer = Tier::kCpu;
  plan.delayed_update = true;
  expect_the_same_with_secondary_shards(plan, "delayed update");
}

TEST(SecondaryShards, OfStagesThatComeInTwoPassesChangeNoBit) {
  for (const Schedule schedule : {Schedule::kInterleaved, Schedule::kZeroBubbleV}) {
    Plan plan = plan_of("cpu.f64");
    plan.parallel.pp = 2;
    plan.schedule = schedule;
    ASSERT_EQ(illegal(plan, shape_of(load_model(plan.model))), std::nullopt);
    expect_the_same_with_secondary_shards(plan, std::string(name(schedule)));
  }
}

}  // namespace
}  // namespace zplan
