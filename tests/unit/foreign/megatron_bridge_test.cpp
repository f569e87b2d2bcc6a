#include "planner/foreign/frameworks/megatron_bridge.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "models/model_formulas.h"
#include "planner/core/error.h"
#include "planner/foreign/frameworks/bridge_fields.h"
#include "planner/foreign/frameworks/framework.h"
#include "planner/foreign/frameworks/megatron.h"
#include "planner/foreign/hugging_face/write_config.h"

namespace zplan {
namespace {

Setup read(const std::string& text, std::int64_t ranks = 16, const char* of = "llama3-8b") {
  const ModelConfig model = load_model(of);
  static const Cluster on = load_cluster("dgx-h100x2");
  return read_megatron_bridge(
      parse_json(text, "config.yaml"),
      {.model = model, .device = on.node.device, .ranks = ranks, .devices_per_node = 8});
}

const Finding* finding(const Setup& setup, std::string_view key) {
  const auto found = std::ranges::find(setup.findings, key, &Finding::key);
  return found == setup.findings.end() ? nullptr : &*found;
}

// Classes have other defaults than options: a fraction of the optimizer that is none, no sharding.
TEST(MegatronBridge, WhatIsLeftOutIsAsTheClassesHaveIt) {
  const auto offload = read(
      R"({"_target_": "ConfigContainer", "ddp": {"use_distributed_optimizer": true}, "optimizer":
    {"optimizer_cpu_offload": true, "use_precision_aware_optimizer": true}})");
  EXPECT_EQ(offload.plan.placement.optimizer_near, 1);
  EXPECT_EQ(read(R"({"_target_": "x", "ddp": {"use_megatron_fsdp": true}})").plan.zero_stage, 0);
  const KeyTable& fields = KeyTable::of("megatron_bridge.json");
  const KeyTable& options = KeyTable::of("megatron.json");
  const JsonNode empty = parse_json("{}", "config.yaml");
  int said = 0;
  for (const auto& [option, usual] : options.objects().at("").keys)
    if (!bridge_field(option).empty() && bridge_option(empty, fields, option)) ++said;
  EXPECT_GT(said, 40);
}

TEST(MegatronBridge, OverARecipeThatIsAsItBegins) {
  const Plan plan = read(R"({"model": {"tensor_model_parallel_size": 2}})").plan;
  EXPECT_EQ(plan.zero_stage, 1);
  EXPECT_TRUE(plan.overlap.gradients && plan.overlap.parameters);
  EXPECT_EQ(plan.kernel_set, "cuda.sm90.bf16");
  EXPECT_EQ(plan.precision.grad, DType::kF32);
  EXPECT_EQ(read(R"({"ddp": {"use_megatron_fsdp": true}})").plan.zero_stage, 3);
  // Of a whole configuration what is not there is not done.
  const Plan whole = read(R"({"_target_": "ConfigContainer"})").plan;
  EXPECT_EQ(whole.zero_stage, 0);
  EXPECT_EQ(whole.kernel_set, "cuda.sm90.fp32");
  EXPECT_EQ(read(R"({"ddp": {"use_distributed_optimizer": false}, "optimizer":
    {"use_distributed_optimizer": false}})")
                .plan.zero_stage,
            0);
}

TEST(MegatronBridge, FieldsSayWhatOptionsSay) {
  const auto setup = read(R"({"model": {"tensor_model_parallel_size": 4,
    "pipeline_model_parallel_size": 2, "virtual_pipeline_model_parallel_size": 4,
    "sequence_parallel": true, "seq_length": 4096, "hidden_dropout": 0.0,
    "recompute_granularity": "full", "recompute_method": "uniform", "recompute_num_layers": 2},
    "train": {"micro_batch_size": 2, "global_batch_size": 64},
    "optimizer": {"use_distributed_optimizer": true, "clip_grad": 0.0},
    "dist": {"use_tp_pp_dp_mapping": true}})");
  const Plan& plan = setup.plan;
  EXPECT_EQ(plan.parallel.tp, 4);
  EXPECT_EQ(plan.parallel.pp, 2);
  EXPECT_EQ(plan.parallel.dp, 2);
  EXPECT_EQ(plan.pieces(), 8);
  EXPECT_TRUE(plan.parallel.sequence_parallel);
  EXPECT_EQ(plan.batch, (Batch{.global_batch = 64, .micro_batch = 2, .sequence = 4096}));
  EXPECT_TRUE(plan.all_full());
  EXPECT_EQ(plan.checkpoint_layers, 2);
  EXPECT_EQ(plan.zero_stage, 1);
  EXPECT_FALSE(plan.clip);
  EXPECT_EQ(plan.order, RankOrder::kPipelineFirst);
}

// A switch of two sections is on where either is.
TEST(MegatronBridge, EitherSectionTurnsOnWhatBothHave) {
  constexpr const char* kShards[] = {
      R"({"ddp": {"use_megatron_fsdp": true, "data_parallel_sharding_strategy": "optim_grads_params"},
          "dist": {"use_megatron_fsdp": false}})",
      R"({"ddp": {"use_megatron_fsdp": false, "data_parallel_sharding_strategy": "optim_grads_params"},
          "dist": {"use_megatron_fsdp": true}})"};
  for (const char* text : kShards) EXPECT_EQ(read(text).plan.zero_stage, 3) << text;
}

TEST(MegatronBridge, PrecisionIsNamedOrOfFields) {
  const auto grads_in_fp32 = [](const std::string& text) {
    return read(text).plan.precision.grad == DType::kF32;
  };
  EXPECT_TRUE(grads_in_fp32(R"({"mixed_precision": "bf16_mixed"})"));
  EXPECT_TRUE(grads_in_fp32(R"({"mixed_precision": {"bf16": true}})"));
  EXPECT_FALSE(grads_in_fp32(R"({"mixed_precision": {"bf16": true, "grad_reduce_in_fp32": false},
                                 "ddp": {"grad_reduce_in_fp32": true}})"));
  // Without the section the model's type and the class of ddp count.
  EXPECT_FALSE(grads_in_fp32(R"({"_target_": "x", "model": {"bf16": true}})"));
  EXPECT_TRUE(grads_in_fp32(R"({"_target_": "x", "model": {"bf16": true},
                                "ddp": {"grad_reduce_in_fp32": true}})"));
  EXPECT_EQ(read(R"({"mixed_precision": "bf16_with_fp8_current_scaling_mixed"})").plan.kernel_set,
            "cuda.sm90.fp8");
  EXPECT_EQ(finding(read(R"({"mixed_precision": "bf16_mixd"})"), "mixed_precision")->trouble,
            Trouble::kError);
  EXPECT_EQ(finding(read(R"({"mixed_precision": "bf16-mixed"})"), "mixed_precision"), nullptr);
  // Where the section is there it is set up over what others say.
  EXPECT_EQ(read(R"({"mixed_precision": {"autocast_enabled": false}, "model": {"bf16": true}})")
                .plan.kernel_set,
            "cuda.sm90.fp32");
  EXPECT_EQ(finding(read(R"({"mixed_precision": {"fp16": true}, "model": {"bf16": true}})"),
                    "mixed_precision.fp16"),
            nullptr);
  EXPECT_THROW(read(R"({"mixed_precision": {"bf16": true, "fp8": "no"}})"), Error);
  // The cards of this test have no products of 4 bits.
  EXPECT_EQ(finding(read(R"({"mixed_precision": "bf16_with_nvfp4_mixed"})"), "")->message,
            "no kernels in bf16 and nvfp4 for H100-SXM5-80GB; those of cuda.sm90.bf16 are taken");
  const Plan blocks = read(R"({"mixed_precision": "bf16_with_fp8_subchannel_scaling_mixed"})").plan;
  EXPECT_EQ(blocks.kernel_set, "cuda.sm90.fp8_block");
  EXPECT_TRUE(blocks.low_precision.keeps_codes);
}

TEST(MegatronBridge, FaultsNameFieldsAndPlaces) {
  try {
    read("{\"model\": {\n  \"tensor_model_parallel_size\": \"two\"}}");
    FAIL() << "read";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("config.yaml:2:33: /model/tensor_model_parallel_size"),
              std::string::npos)
        << error.what();
  }
  const auto setup = read(
      "{\"model\": {\"sequence_paralel\": true,\n \"sequence_parallel\": true},"
      "\n \"optimizer\": {\"optimizer_cpu_offload\": true}}");
  ASSERT_NE(finding(setup, "model.sequence_parallel"), nullptr);
  EXPECT_EQ(finding(setup, "model.sequence_parallel")->place, "config.yaml:2:23");
  ASSERT_NE(finding(setup, "model.sequence_paralel"), nullptr);
  EXPECT_EQ(finding(setup, "model.sequence_paralel")->trouble, Trouble::kUnknown);
  ASSERT_NE(finding(setup, "optimizer.optimizer_cpu_offload"), nullptr);
  EXPECT_EQ(finding(setup, "optimizer.optimizer_cpu_offload")->message,
            "needs optimizer.use_precision_aware_optimizer");
}

// Of a section whose class is said other fields may be right.
TEST(MegatronBridge, FieldsOfOtherClassesAreNoFault) {
  const auto setup = read(R"({"_target_": "ConfigContainer", "dataset":
    {"_target_": "mine.Dataset", "folder": "x", "_private": 1}, "train": {"micro_batch_sise": 1}})");
  EXPECT_EQ(finding(setup, "dataset.folder"), nullptr);
  EXPECT_EQ(finding(setup, "dataset._private"), nullptr);
  ASSERT_NE(finding(setup, "train.micro_batch_sise"), nullptr);
  EXPECT_EQ(finding(setup, ""), nullptr);  // nothing is assumed of a whole configuration
  EXPECT_NE(finding(read("{}"), ""), nullptr);
}

TEST(MegatronBridge, WhatIsWrittenIsTheModel) {
  for (const char* name :
       {"llama3-8b", "gpt2", "qwen3-8b", "qwen2.5-7b", "mixtral-8x7b", "deepseek-v2", "deepseek-v3",
        "llama4-maverick", "gpt-1.3b-moe128", "mistral-7b"}) {
    const ModelConfig model = load_model(name);
    Plan plan;
    plan.kernel_set = "cuda.sm90.bf16";
    plan.batch = {.global_batch = model.global_batch, .micro_batch = 1, .sequence = model.sequence};
    const JsonNode fields = parse_json(nested_json(megatron_bridge_keys(plan, model)), "fields");
    const auto read = megatron_bridge_model(fields);
    ASSERT_TRUE(read) << name;
    EXPECT_TRUE(config_differences(model, *read).empty())
        << name << ": " << config_differences(model, *read).front();
  }
}

TEST(MegatronBridge, OverlapIsSetByItsSection) {
  const auto overlaps = [](const std::string& text) { return read(text).plan.overlap.gradients; };
  EXPECT_FALSE(overlaps(R"({"_target_": "x", "ddp": {"overlap_grad_reduce": false}})"));
  EXPECT_TRUE(overlaps(R"({"_target_": "x", "ddp": {"overlap_grad_reduce": false},
                           "comm_overlap": {"tp_comm_overlap": true}})"));
  EXPECT_FALSE(overlaps(R"({"_target_": "x", "comm_overlap": {"overlap_grad_reduce": false}})"));
}

TEST(MegatronBridge, TheExchangeOfExpertsIsBesideOthersAsItsSectionOrTheModelSays) {
  const auto overlap = [](const std::string& more) {
    return read(R"({"_target_": "x", "train": {"global_batch_size": 64, "micro_batch_size": 1},
                    "model": {"expert_model_parallel_size": 8,
                    "moe_token_dispatcher_type": "alltoall")" +
                    more + "}",
                16, "qwen3-30b-a3b")
        .plan.overlap;
  };
  EXPECT_FALSE(overlap("}").exchange);
  EXPECT_TRUE(overlap(R"(, "overlap_moe_expert_parallel_comm": true})").exchange);
  const Overlap both = overlap(R"(}, "comm_overlap": {"overlap_moe_expert_parallel_comm": true,
                                                      "delay_wgrad_compute": true})");
  EXPECT_TRUE(both.exchange && both.weight_gradients);
  EXPECT_FALSE(overlap(R"(}, "comm_overlap": {"tp_comm_overlap": true})").exchange);
}

TEST(MegatronBridge, WhatIsNotInAPlanIsSaid) {
  const auto setup = read(R"({"train": {"rampup_batch_size": [1, 1, 1]},
    "model": {"cpu_offloading_num_layers": 2, "pipeline_model_parallel_size": 2}})");
  EXPECT_EQ(finding(setup, "train.rampup_batch_size")->trouble, Trouble::kNotModelled);
  EXPECT_EQ(finding(setup, "model.cpu_offloading_num_layers"), nullptr);
}

// Two stages, both of which are said.
TEST(MegatronBridge, EndsOfAPipelineAreItsStages) {
  const auto setup = read(R"({"model": {"pipeline_model_parallel_size": 2,
    "num_layers_in_first_pipeline_stage": 20, "num_layers_in_last_pipeline_stage": 12}})");
  EXPECT_EQ(setup.plan.stage_layers, (std::vector<std::int32_t>{20, 12}));
  EXPECT_NE(finding(read(R"({"model": {"pipeline_model_parallel_size": 2,
    "num_layers_in_first_pipeline_stage": 20, "num_layers_in_last_pipeline_stage": 13}})"),
                    "model.num_layers_in_first_pipeline_stage"),
            nullptr);
}

TEST(MegatronBridge, TextsSpeakOfFields) {
  EXPECT_EQ(in_bridge_fields("needs --use-distributed-optimizer, not --none or --lr"),
            "needs ddp.use_distributed_optimizer, not --none or optimizer.lr");
}

}  // namespace
}  // namespace zplan
