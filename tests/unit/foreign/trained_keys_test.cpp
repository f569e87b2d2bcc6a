// These tests read what training scripts say of LoRA, in the spellings of PEFT, TRL, LLaMA-Factory,
// Axolotl and Megatron-Bridge, and what is asked for where no key says it.
#include "planner/foreign/frameworks/trained_keys.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "planner/core/error.h"
#include "planner/foreign/frameworks/config_file.h"

namespace zplan {
namespace {

using testing::HasSubstr;

struct Read {
  Setup setup;
  std::string message_of(std::string_view key) const {
    for (const Finding& finding : setup.findings)
      if (finding.key == key) return finding.message;
    return "";
  }
  const TrainedChoice& train() const { return setup.plan.train; }
};

Read read(const std::string& name, const std::string& text, const Pins& asked = {}) {
  static const ModelConfig model = load_model("llama3-8b");
  static const Cluster cluster = load_cluster("dgx-h100");
  const ConfigFile file = parse_config(text, name);
  Setup setup = file.framework->read(file.root, {.model = model,
                                                 .device = cluster.node.device,
                                                 .ranks = cluster.devices(),
                                                 .asked = asked,
                                                 .devices_per_node = 8});
  EXPECT_EQ(illegal(setup.plan, shape_of(model)), std::nullopt);
  return {std::move(setup)};
}

TEST(TrainedKeys, OfTrlAreItsModelConfig) {
  const Read some = read("run.sh",
                         "python sft.py --per_device_train_batch_size 1 --use_peft --lora_r 32 "
                         "--lora_alpha 64 --lora_target_modules all-linear --load_in_4bit "
                         "--bnb_4bit_quant_type fp4 --use_bnb_nested_quant --bf16 --use_rslora\n");
  EXPECT_EQ(some.train(), (TrainedChoice{.what = Trained::kLora,
                                         .rank = 32,
                                         .alpha = 64,
                                         .by_root = true,
                                         .base = BaseType::kFp4Double}));
  const Read usual =
      read("sft.yaml", "per_device_train_batch_size: 1\nuse_peft: true\nbf16: true\n");
  EXPECT_EQ(usual.train(),
            (TrainedChoice{
                .what = Trained::kLora, .rank = 16, .alpha = 32, .targets = LoraTargets::kQkv}));
  const Read saved = read("sft.yaml",
                          "per_device_train_batch_size: 1\nuse_peft: true\nbf16: true\n"
                          "lora_modules_to_save: [lm_head, embed_tokens, norm]\n"
                          "lora_target_modules: [q_proj, v_proj]\nuse_dora: true\n");
  EXPECT_EQ(saved.train().saved, LoraSaved::kBoth);
  EXPECT_THAT(saved.message_of("lora_modules_to_save"), HasSubstr("norm: counted as frozen"));
  EXPECT_EQ(saved.train().targets, LoraTargets::kQkv);
  EXPECT_THAT(saved.message_of("lora_target_modules"), HasSubstr("have factors together"));
  EXPECT_THAT(saved.message_of("use_dora"), HasSubstr("DoRA"));
}

TEST(TrainedKeys, OfLlamaFactoryHaveItsDefaults) {
  const Read file = read("lora.yaml",
                         "finetuning_type: lora\nlora_rank: 8\nlora_target: q_proj,v_proj,o_proj\n"
                         "quantization_bit: 4\nper_device_train_batch_size: 1\nbf16: true\n");
  EXPECT_EQ(file.train(), (TrainedChoice{.what = Trained::kLora,
                                         .rank = 8,
                                         .alpha = 16,
                                         .targets = LoraTargets::kAttention,
                                         .base = BaseType::kNf4Double}));
  EXPECT_FALSE(
      read("full.yaml", "finetuning_type: full\nper_device_train_batch_size: 1\nbf16: true\n")
          .train()
          .has_lora());
}

TEST(TrainedKeys, OfAxolotlAreRead) {
  const Read file = read("qlora.yaml",
                         "adapter: qlora\nload_in_4bit: true\nlora_r: 32\nlora_alpha: 16\n"
                         "gradient_checkpointing: true\noutput_dir: out\nbf16: true\n");
  EXPECT_EQ(file.train().base, BaseType::kNf4Double);
  EXPECT_EQ(file.train().rank, 32);
}

TEST(TrainedKeys, PagedAndEightBitStatesOfFactorsAreSaid) {
  const Read file = read("sft.yaml",
                         "per_device_train_batch_size: 1\nuse_peft: true\nbf16: true\n"
                         "optim: paged_adamw_8bit\n");
  EXPECT_EQ(file.setup.plan.optimizer.kind, OptimizerKind::kAdamW);
  EXPECT_THAT(file.message_of("optim"), HasSubstr("counted on the GPU"));
}

TEST(TrainedKeys, OfMegatronBridgeAreItsSection) {
  const Read file =
      read("config.yaml",
           "peft:\n  _target_: megatron.bridge.peft.lora.LoRA\n  dim: 8\n  alpha: 16\n"
           "model:\n  tensor_model_parallel_size: 1\ntrain:\n  micro_batch_size: 1\n");
  EXPECT_TRUE(file.train().has_lora());
  EXPECT_EQ(file.train().rank, 8);
  const Read dora =
      read("config.yaml",
           "peft:\n  _target_: megatron.bridge.peft.dora.DoRA\n"
           "model:\n  tensor_model_parallel_size: 1\ntrain:\n  micro_batch_size: 1\n");
  EXPECT_THAT(dora.message_of("peft"), HasSubstr("counted as LoRA"));
}

// DeepSpeed, Accelerate and FSDP have no key that says what is trained.
TEST(TrainedKeys, WhatIsAskedForCountsWhereNoKeySaysIt) {
  Pins asked;
  asked.set("/train/what", Trained::kLora);
  asked.set("/train/rank", 64);
  const Read deepspeed = read("ds.json",
                              R"({"train_micro_batch_size_per_gpu": 1, "bf16": {"enabled": true},
                                  "zero_optimization": {"stage": 3}})",
                              asked);
  EXPECT_TRUE(deepspeed.train().has_lora());
  EXPECT_EQ(deepspeed.train().rank, 64);
  const Read accelerate = read("acc.yaml",
                               "distributed_type: DEEPSPEED\nmixed_precision: bf16\n"
                               "deepspeed_config:\n  zero_stage: 3\nnum_processes: 8\n",
                               asked);
  EXPECT_EQ(accelerate.train().rank, 64);
}

TEST(TrainedKeys, AnAdapterConfigIsAskedFor) {
  const std::string path = testing::TempDir() + "adapter_config.json";
  std::ofstream(path) << R"({"peft_type": "LORA", "r": 4, "lora_alpha": 8, "use_rslora": true,
                             "target_modules": ["q_proj", "k_proj", "v_proj", "o_proj"],
                             "modules_to_save": null, "bias": "all"})";
  Pins pins;
  pins.set("/train/rank", 2);
  std::vector<Finding> findings;
  take_adapter(path, load_model("llama3-8b"), pins, findings);
  EXPECT_EQ(pins.values().train, (TrainedChoice{.what = Trained::kLora,
                                                .rank = 2,
                                                .alpha = 8,
                                                .targets = LoraTargets::kAttention,
                                                .by_root = true}));
  ASSERT_EQ(findings.size(), 1U);
  EXPECT_EQ(findings[0].key, "bias");
  std::ofstream(path) << R"({"peft_type": "IA3"})";
  EXPECT_THROW(take_adapter(path, load_model("llama3-8b"), pins, findings), Error);
}

TEST(TrainedKeys, AnExportBringsTheArgumentsOfPeft) {
  Plan plan;
  EXPECT_EQ(lora_json(plan), "");
  plan.kernel_set = "cuda.sm90.bf16";
  plan.train = {.what = Trained::kLora,
                .rank = 4,
                .targets = LoraTargets::kQkv,
                .base = BaseType::kNf4Double,
                .saved = LoraSaved::kHead};
  const auto root = nlohmann::json::parse(lora_json(plan));
  EXPECT_EQ(root["lora"]["r"], 4);
  EXPECT_EQ(root["lora"]["modules_to_save"], nlohmann::json::array({"lm_head"}));
  EXPECT_EQ(root["lora"]["target_modules"].front(), "q_proj");
  EXPECT_EQ(root["quantization"]["bnb_4bit_quant_type"], "nf4");
  EXPECT_EQ(root["quantization"]["bnb_4bit_use_double_quant"], true);
}

}  // namespace
}  // namespace zplan
