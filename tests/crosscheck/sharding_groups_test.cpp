// Groups within sharding groups, secondary shards and parameter shards, where the pairwise cover
// has no place for them: both, copies of all, and what changes the numbers that are trained. They
// change no bit of them.
#include <gtest/gtest.h>

#include "planner/program/kernels/kernel_set.h"
#include "planner/program/verify/verify.h"
#include "tests/support/plan_space.h"
#include "tests/support/sanitized.h"
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

using Groups = void (*)(Plan&);
void secondary(Plan& plan) { plan.secondary = 2; }
void parameters(Plan& plan) { plan.parameter_shards = 2; }
void both(Plan& plan) {
  plan.secondary = 2;
  plan.parameter_shards = 4;
}

void expect_the_same_with(Groups groups, Plan plan, const std::string& name) {
  exec::RunOptions options;
  options.steps = testing_support::steps_of(3);
  const auto expected = testing_support::train(plan, options);
  groups(plan);
  ASSERT_EQ(illegal(plan, shape_of(load_model(plan.model))), std::nullopt) << name;
  const auto got = testing_support::train(plan, options);
  EXPECT_TRUE(verify(got->job).empty()) << name;
  EXPECT_EQ(exec::replica_mismatch(got->job, got->result.memory), std::nullopt) << name;
  testing_support::expect_same_bits(*got, *expected, name);
}

TEST(GroupsWithinSharding, OfSeveralCopiesChangeNoBit) {
  for (const RankOrder order : {RankOrder::kDataFirst, RankOrder::kPipelineFirst})
    for (const Groups groups : {secondary, parameters}) {
      Plan plan = plan_of("cpu.f64");
      plan.parallel = {.dp = 8, .shards = 4};
      plan.order = order;
      expect_the_same_with(groups, plan, std::string(name(order)));
    }
}

TEST(GroupsWithinSharding, OfBothKindsChangeNoBit) {
  Plan plan = plan_of("cpu.f64");
  plan.parallel.dp = 8;
  expect_the_same_with(both, plan, "8 ranks");
}

TEST(GroupsWithinSharding, OfOtherRecipesChangeNoBit) {
  testing_support::Thinned some;
  for (const char* recipe : {"standard", "main-gradients", "lean", "fsdp", "fsdp-pure"})
    for (const Tier tier : {Tier::kGpu, Tier::kCpu})
      for (const Groups groups : {secondary, parameters}) {
        if (some.skips()) continue;
        Plan plan = plan_of("cpu.bf16", recipe);
        plan.placement.optimizer = tier;
        if (groups == secondary) plan.placement.params = tier;
        expect_the_same_with(groups, plan, std::string(recipe) + " " + std::string(name(tier)));
      }
}

TEST(GroupsWithinSharding, OfOneStepAgoChangeNoBit) {
  for (const Groups groups : {secondary, parameters}) {
    Plan plan = plan_of("cpu.f32");
    plan.placement.optimizer = Tier::kCpu;
    plan.delayed_update = true;
    expect_the_same_with(groups, plan, "delayed update");
  }
}

TEST(GroupsWithinSharding, OfStagesThatComeInSeveralPassesChangeNoBit) {
  for (const Schedule schedule : {Schedule::kInterleaved, Schedule::kZeroBubbleV})
    for (const Groups groups : {secondary, parameters}) {
      Plan plan = plan_of("cpu.f64");
      plan.parallel.pp = 2;
      plan.schedule = schedule;
      expect_the_same_with(groups, plan, std::string(name(schedule)));
    }
}

}  // namespace
}  // namespace zplan
