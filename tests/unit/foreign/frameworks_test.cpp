#include "planner/foreign/frameworks/framework.h"

#include <gtest/gtest.h>

#include <vector>

#include "models/model_formulas.h"
#include "planner/foreign/frameworks/config_file.h"
#include "planner/foreign/frameworks/megatron.h"
#include "planner/foreign/frameworks/megatron_model.h"
#include "planner/foreign/hugging_face/families.h"
#include "planner/foreign/hugging_face/hugging_face.h"
#include "planner/foreign/hugging_face/write_config.h"
#include "planner/plan/plan_difference.h"

namespace zplan {
namespace {

Cluster cluster() { return load_cluster("dgx-h100x8"); }

Setup read_keys(const Framework& framework, const Plan& plan, const ModelConfig& model,
                const Cluster& on) {
  const JsonNode root = parse_json(nested_json(framework.keys(plan, model)), "keys.json");
  return framework.read(root, {.model = model,
                               .device = on.node.device,
                               .ranks = plan.parallel.ranks(),
                               .asked = framework.said(plan),
                               .devices_per_node = on.node.devices_per_node});
}

// Plans of many kinds for 64 GPUs.
std::vector<Plan> plans(const ModelConfig& model) {
  std::vector<Plan> out;
  for (const std::int32_t stage : {0, 1, 2, 3}) {
    for (const std::int32_t tp : {1, 2, 8}) {
      for (const std::int32_t pp : {1, 4}) {
        for (const Recompute mode : {Recompute::kNone, Recompute::kFull}) {
          for (const Tier home : {Tier::kGpu, Tier::kCpu, Tier::kNvme}) {
            Plan plan;
            plan.model = model.name;
            plan.parallel = {.dp = 64 / tp / pp, .tp = tp, .pp = pp};
            plan.parallel.sequence_parallel = tp > 1;
            plan.zero_stage = stage;
            plan.kernel_set = "cuda.sm90.bf16";
            plan.precision = default_recipe(plan.kernel_set);
            plan.recompute = {{mode}};
            plan.placement.optimizer = home;
            plan.placement.grads = stage >= 2 ? home : Tier::kGpu;
            plan.batch = {.global_batch = 256, .micro_batch = 1, .sequence = 4096};
            if (!illegal(plan, shape_of(model))) out.push_back(plan);
          }
        }
      }
    }
  }
  return out;
}

// What a framework makes of a plan it can say: written and read again it stays.
TEST(Frameworks, WhatIsReadIsWrittenAsThat) {
  const ModelConfig model = load_model("llama3-8b");
  const Cluster on = cluster();
  const std::vector<Plan> all = plans(model);
  ASSERT_GE(all.size(), 40U);
  for (const Framework& framework : frameworks()) {
    for (const Plan& plan : all) {
      const Plan once = read_keys(framework, plan, model, on).plan;
      const Plan twice = read_keys(framework, once, model, on).plan;
      for (const DecisionChange& change : plan_difference(once, twice))
        ADD_FAILURE() << framework.name << ": " << change.pointer << " " << change.before << " -> "
                      << change.after << "\n"
                      << to_json(plan);
    }
  }
}

// Modules of Megatron-LM that are recomputed come back as the operators they were.
TEST(Frameworks, OperatorsAreModulesOfMegatron) {
  using enum LayerOperator;
  const ModelConfig model = load_model("mixtral-8x7b");
  Plan plan = plans(load_model("llama3-8b")).front();
  plan.model = model.name;
  plan.dispatcher = Dispatcher::kAllToAll;
  plan.recompute = {{.mode = Recompute::kOperators, .operators = {kAttention, kNorm, kExperts}}};
  ASSERT_EQ(illegal(plan, shape_of(model)), std::nullopt);
  const Plan read = read_keys(find_framework("megatron"), plan, model, cluster()).plan;
  EXPECT_EQ(read.recompute, plan.recompute);
}

// A decision that a framework has is not lost on the way.
TEST(Frameworks, EachSaysWhatItHas) {
  const ModelConfig model = load_model("llama3-8b");
  const Cluster on = cluster();
  for (const Plan& plan : plans(model)) {
    const Parallel& p = plan.parallel;
    const Plan deepspeed = read_keys(find_framework("deepspeed"), plan, model, on).plan;
    EXPECT_EQ(deepspeed.zero_stage, plan.zero_stage);
    EXPECT_EQ(deepspeed.parallel.tp, p.tp);
    EXPECT_EQ(deepspeed.recompute, plan.recompute);
    if (plan.zero_stage == 3) {
      EXPECT_EQ(deepspeed.placement.optimizer, plan.placement.optimizer);
    }
    const Plan megatron = read_keys(find_framework("megatron"), plan, model, on).plan;
    EXPECT_EQ(megatron.parallel, p);
    EXPECT_EQ(megatron.zero_stage, plan.zero_stage);
    EXPECT_EQ(megatron.batch, plan.batch);
    EXPECT_EQ(megatron.recompute, plan.recompute);
    const Plan torchtitan = read_keys(find_framework("torchtitan"), plan, model, on).plan;
    EXPECT_EQ(torchtitan.parallel.tp, p.tp);
    EXPECT_EQ(torchtitan.parallel.pp, p.pp);
    EXPECT_EQ(torchtitan.batch, plan.batch);
    const Plan fsdp = read_keys(find_framework("fsdp"), plan, model, on).plan;
    EXPECT_EQ(fsdp.batch, plan.batch);
    EXPECT_EQ(fsdp.recompute, plan.recompute);
    EXPECT_EQ(fsdp.zero_stage == 0, plan.zero_stage == 0);
    if (plan.zero_stage == 3) {
      EXPECT_EQ(torchtitan.zero_stage, 3);
      EXPECT_EQ(fsdp.zero_stage, 3);
      EXPECT_EQ(fsdp.placement.optimizer == Tier::kCpu, plan.placement.optimizer == Tier::kCpu);
    }
  }
}

// Its optimizer on the CPU is sharded, and where it is not asked for that there is none.
TEST(Frameworks, MegatronOffloadsAShardedOptimizer) {
  const ModelConfig model = load_model("llama3-8b");
  const Cluster on = cluster();
  Plan plan = plans(model).front();
  plan.placement.optimizer = Tier::kCpu;
  for (const std::int32_t stage : {0, 1}) {
    plan.zero_stage = stage;
    EXPECT_EQ(read_keys(find_framework("megatron"), plan, model, on).plan.placement.optimizer,
              stage == 0 ? Tier::kGpu : Tier::kCpu);
  }
  const JsonNode root = parse_json(
      R"({"--optimizer-cpu-offload": true, "--use-precision-aware-optimizer": true,
          "--optimizer": "muon"})",
      "keys.json");
  const auto setup = read_megatron(root, {.model = model, .device = on.node.device, .ranks = 64});
  EXPECT_EQ(std::ranges::count(setup.findings, "--use-precision-aware-optimizer", &Finding::key),
            2);
}

TEST(Frameworks, KnowTheLayersOfEachFamily) {
  for (const std::string& type : hugging_face_types())
    EXPECT_FALSE(find_family(type)->layer.empty()) << type;
}

TEST(Frameworks, RenderedFilesAreReadAsTheirKeys) {
  const ModelConfig model = load_model("llama3-8b");
  const Cluster on = cluster();
  const Plan plan = plans(model).back();
  for (const Framework& framework : frameworks()) {
    const std::string text = framework.render(framework.keys(plan, model));
    const ConfigFile file = parse_config(text, std::string(framework.file));
    ASSERT_EQ(file.framework, &framework) << text;
    const auto setup = framework.read(file.root, {.model = model,
                                                  .device = on.node.device,
                                                  .ranks = plan.parallel.ranks(),
                                                  .asked = framework.said(plan),
                                                  .devices_per_node = 8});
    EXPECT_TRUE(plan_difference(setup.plan, read_keys(framework, plan, model, on).plan).empty())
        << framework.name;
    for (const Finding& finding : setup.findings)
      EXPECT_NE(finding.trouble, Trouble::kUnknown) << framework.name << " " << finding.key;
  }
}

// The options written for a model describe it.
TEST(Frameworks, MegatronOptionsAreTheModel) {
  for (const char* name : {"llama3-8b", "llama3-70b", "gpt3-175b", "gpt2", "qwen3-8b", "qwen2.5-7b",
                           "mixtral-8x7b", "qwen3-30b-a3b", "deepseek-v2", "deepseek-v3",
                           "llama4-maverick", "gpt-1.3b-moe128", "mistral-7b", "phi3-mini"}) {
    ModelConfig model = load_model(name);
    if (model.latent) model.mtp_layers = 1;
    Plan plan;
    plan.kernel_set = "cuda.sm90.bf16";
    plan.batch = {.global_batch = model.global_batch, .micro_batch = 1, .sequence = model.sequence};
    const JsonNode root = parse_json(nested_json(megatron_keys(plan, model)), "keys.json");
    const std::optional<ModelConfig> read = megatron_model(root);
    ASSERT_TRUE(read) << name;
    EXPECT_EQ(parameter_count(*read), parameter_count(model)) << name;
    for (const std::string& difference : config_differences(model, *read))
      ADD_FAILURE() << name << ": " << difference;
  }
}

TEST(Frameworks, MegatronSkipsTheWindowOfEverySoManyLayers) {
  ModelConfig model = load_model("mistral-7b");
  model.layer.window_layers = 3;
  model.layer.full_layers = 1;
  Plan plan;
  plan.kernel_set = "cuda.sm90.bf16";
  plan.batch.sequence = model.sequence;
  const JsonNode root = parse_json(nested_json(megatron_keys(plan, model)), "keys.json");
  EXPECT_EQ(find_key(root, "--window-attn-skip-freq")->integer(1, 9), 4);
  const std::optional<ModelConfig> read = megatron_model(root);
  ASSERT_TRUE(read);
  EXPECT_EQ(config_differences(model, *read), std::vector<std::string>());
}

TEST(Frameworks, TorchtitanHasItsFlavorsAndNoPipelineOfGptOss) {
  const Framework& titan = find_framework("torchtitan");
  const Cluster on = cluster();
  for (const char* name :
       {"llama3-70b", "qwen3-30b-a3b", "deepseek-v2", "deepseek-v3", "gpt-oss-20b"}) {
    const ModelConfig model = load_model(name);
    Plan plan;
    plan.kernel_set = "cuda.sm90.bf16";
    plan.batch.sequence = model.sequence;
    const JsonNode root = parse_json(nested_json(titan.keys(plan, model)), "keys.json");
    const std::optional<ModelConfig> read = titan.model(root);
    ASSERT_TRUE(read) << name;
    EXPECT_EQ(config_differences(model, *read), std::vector<std::string>()) << name;
    plan.parallel.pp = 2;
    plan.batch.global_batch = 2;
    EXPECT_EQ(read_keys(titan, plan, model, on).is_broken(), model.name == "gpt-oss-20b") << name;
  }
}

}  // namespace
}  // namespace zplan
