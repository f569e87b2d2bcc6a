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

}  // namespace
}  // namespace zplan
