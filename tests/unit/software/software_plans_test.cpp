#include "planner/software/software_plans.h"

#include <gtest/gtest.h>

#include "planner/foreign/model_file.h"
#include "planner/search/search.h"

namespace zplan {
namespace {

struct Asked {
  ModelConfig model;
  Cluster cluster;
  std::optional<SoftwarePlans> plans;
};

Asked asked_of(const std::string& software, const std::string& model, const std::string& cluster,
               const Pins& pins = {}) {
  Asked asked{load_named_model(model).model, load_cluster(cluster), {}};
  asked.plans = plans_of(load_stack(software), asked.model, asked.cluster, pins);
  return asked;
}

std::vector<Plan> space_of(const Asked& asked, Pins pins = {}) {
  pins.software = asked.plans;
  return enumerate(asked.model, asked.cluster, pins);
}

TEST(SoftwarePlans, OurOwnExecutorRunsEveryPlan) {
  EXPECT_FALSE(asked_of("zplan", "llama3-8b", "dgx-h100").plans.has_value());
}

TEST(SoftwarePlans, EachPlanOfTheSpaceComesBackAsItWasWritten) {
  for (const char* const software : {"megatron", "nemo", "deepspeed", "torchtitan", "fsdp", "hf"}) {
    const Asked asked = asked_of(software, "llama3-8b", "dgx-h100");
    const std::vector<Plan> space = space_of(asked);
    ASSERT_FALSE(space.empty()) << software;
    for (std::size_t i = 0; i < space.size(); i += 1 + space.size() / 50)
      EXPECT_TRUE(asked.plans->has(space[i])) << software << "\n" << to_json(space[i]);
  }
}

TEST(SoftwarePlans, FrameworksLackWhatTheirFilesCannotSay) {
  for (const Plan& plan : space_of(asked_of("torchtitan", "llama3-8b", "dgx-h100")))
    EXPECT_NE(plan.placement.optimizer, Tier::kNvme);
  for (const Plan& plan : space_of(asked_of("fsdp", "llama3-8b", "dgx-h100"))) {
    EXPECT_EQ(plan.parallel.tp, 1);
    EXPECT_EQ(plan.parallel.pp, 1);
  }
}

TEST(SoftwarePlans, ProfilesWithoutAFrameworkStateTheirPlans) {
  for (const Plan& plan : space_of(asked_of("deepspeed@2021", "1T", "dgx2x32"))) {
    const bool offloads = plan.placement.optimizer != Tier::kGpu;
    EXPECT_FALSE(plan.parallel.pp > 1 && (offloads || plan.zero_stage > 1));
    EXPECT_FALSE(plan.parallel.sequence_parallel);
  }
}

TEST(SoftwarePlans, SoftwareWithoutExpertsTrainsNoModelWithThem) {
  const Asked asked = asked_of("llmq", "mixtral-8x7b", "dgx-h100");
  EXPECT_THROW(space_of(asked), CannotRun);
  EXPECT_EQ(asked.plans->why_not(Plan()), "it does not train models with experts");
}

TEST(SoftwarePlans, APinThatFilesCannotSayIsTakenAsTheUsersWord) {
  Pins pins;
  pins.set("/zero_stage", 1);
  Asked asked = asked_of("fsdp", "llama3-8b", "dgx-h100", pins);
  EXPECT_THROW(space_of(asked, pins), CannotRun);
  asked.plans = plans_of(load_stack("fsdp"), asked.model, asked.cluster, pins, Pinned::kUsersWord);
  for (const Plan& plan : space_of(asked, pins)) EXPECT_EQ(plan.zero_stage, 1);
}

TEST(SoftwarePlans, SaysWhatASoftwareRunsInPlaceOfAPinnedDecision) {
  Pins pins;
  pins.set("/zero_stage", 1);
  const Asked asked = asked_of("fsdp", "llama3-8b", "dgx-h100", pins);
  Plan plan;
  plan.model = "llama3-8b";
  plan.kernel_set = asked.cluster.node.device.kernel_set;
  plan.parallel.dp = 8;
  plan.zero_stage = 1;
  plan.batch = {.global_batch = 8, .micro_batch = 1, .sequence = 8192};
  EXPECT_FALSE(asked.plans->as_run(plan).has_value());
  EXPECT_NE(asked.plans->why_not(plan).find("--zero"), std::string::npos)
      << asked.plans->why_not(plan);
}

Plan whole_replicas(const Asked& asked) {
  Plan plan;
  plan.model = asked.model.name;
  plan.kernel_set = asked.cluster.node.device.kernel_set;
  plan.precision = default_recipe(plan.kernel_set);
  plan.parallel.dp = static_cast<std::int32_t>(asked.cluster.devices());
  plan.batch = {.global_batch = plan.parallel.dp, .micro_batch = 1, .sequence = 1024};
  return plan;
}

TEST(SoftwarePlans, TheTrainerRunsWholeReplicas) {
  const Asked asked = asked_of("hf", "gpt2-355m", "dgx-a100");
  const Plan plan = whole_replicas(asked);
  const auto run = asked.plans->as_run(plan);
  ASSERT_TRUE(run.has_value()) << asked.plans->why_not(plan);
  EXPECT_EQ(run->zero_stage, 0);
  EXPECT_EQ(run->precision, default_recipe(plan.kernel_set));
}

TEST(SoftwarePlans, ElementTypesThatAreAskedForAreNotTheSoftwaresToDecide) {
  Pins pins;
  pins.recipes = {"lean"};
  const Asked asked = asked_of("fsdp", "llama3-8b", "dgx-h100", pins);
  Plan plan = whole_replicas(asked);
  plan.precision = *find_recipe("lean", plan.kernel_set);
  EXPECT_FALSE(asked.plans->as_run(plan).has_value());
  EXPECT_EQ(asked.plans->why_not(plan), "it has no --precision lean and runs standard");
}

TEST(SoftwarePlans, EagerAttentionIsNotSaidInAFile) {
  const Asked asked = asked_of("hf-eager", "gpt2-355m", "dgx-a100");
  Plan plan = whole_replicas(asked);
  plan.kernel_set = "cuda.sm80.bf16.unfused";
  const auto run = asked.plans->as_run(plan);
  ASSERT_TRUE(run.has_value()) << asked.plans->why_not(plan);
  EXPECT_EQ(run->kernel_set, plan.kernel_set);
}

// Its routers are whole on each tensor parallel rank, what else a layer has is cut: buckets of
// whole layers, which DeepSpeed would make of these, are no plan.
TEST(SoftwarePlans, WhatASoftwareDecidesLeavesAPlan) {
  const Asked asked = asked_of("deepspeed", "gpt-oss-20b", "dgx-h100");
  for (const Plan& plan : space_of(asked))
    ASSERT_FALSE(illegal(plan, shape_of(asked.model)).has_value()) << to_json(plan);
}

TEST(SoftwarePlans, AnotherCutIsNamedBeforeTheReplicasThatItMakes) {
  const Asked asked = asked_of("fsdp", "llama3-8b", "dgx-h100");
  Plan plan = whole_replicas(asked);
  plan.parallel.tp = 2;
  plan.parallel.dp = 4;
  EXPECT_EQ(asked.plans->why_not(plan), "it has no --tp 2 and runs 1");
}

}  // namespace
}  // namespace zplan
