// What DeepSpeed makes of configurations that leave something to it.
#include <gtest/gtest.h>

#include <string>

#include "planner/foreign/frameworks/framework.h"

namespace zplan {
namespace {

// On 8 GPUs.
Plan plan_of(const std::string& json) {
  static const ModelConfig model = load_model("llama3-8b");
  static const Cluster cluster = load_cluster("dgx-h100");
  return find_framework("deepspeed")
      .read(parse_json(json, "config"), {.model = model,
                                         .device = cluster.node.device,
                                         .ranks = cluster.devices(),
                                         .devices_per_node = 8})
      .plan;
}

// train_batch_size = micro-batch x accumulation x ranks, as its documentation has it.
TEST(DeepSpeed, AccumulationFollowsFromTheTwoBatches) {
  const Plan plan = plan_of(R"({"train_batch_size": 64, "train_micro_batch_size_per_gpu": 2})");
  EXPECT_EQ(plan.batch.micro_batch, 2);
  EXPECT_EQ(plan.batch.global_batch, 64);
}

TEST(DeepSpeed, TheOldFlagsOfOffloadStillSendStatesToTheCpu) {
  const Plan plan = plan_of(R"({"train_batch_size": 8, "zero_optimization":
      {"stage": 3, "cpu_offload": true, "cpu_offload_param": true}})");
  EXPECT_EQ(plan.placement.params, Tier::kCpu);
  EXPECT_EQ(plan.placement.optimizer, Tier::kCpu);
}

// Its engine adds up bf16 gradients in fp32 without ZeRO, in bf16 with it.
TEST(DeepSpeed, Bf16GradientsAreAddedUpInFp32WithoutZeroOnly) {
  const auto precision = [](int stage) {
    return plan_of(R"({"train_batch_size": 8, "bf16": {"enabled": true}, "zero_optimization":
        {"stage": )" +
                   std::to_string(stage) + "}}")
        .precision;
  };
  const std::string kernels = "cuda.sm90.bf16";
  EXPECT_EQ(precision(0), *find_recipe("fp32-gradients", kernels));
  for (const int stage : {1, 2, 3})
    EXPECT_EQ(precision(stage), *find_recipe("standard", kernels)) << stage;
}

}  // namespace
}  // namespace zplan
