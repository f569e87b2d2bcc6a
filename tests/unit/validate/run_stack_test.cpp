#include "planner/validate/run_stack.h"

#include <gtest/gtest.h>

#include "planner/validate/catalogues.h"
#include "tests/unit/validate/sample_run.h"

namespace zplan {
namespace {

RunStack found(const RunRecord& run) {
  static const RunCatalogues catalogues;
  return stack_of(run, catalogues.hardware.device(run.hardware.device), catalogues.stacks);
}

std::string stack_name(const RunRecord& run) { return found(run).stack->name; }

TEST(RunStack, AWordStandsAlone) {
  EXPECT_TRUE(has_word("ZeRO (1910.02054), Fig 4", "ZeRO"));
  EXPECT_TRUE(has_word("see NVIDIA/NeMo docs", "NeMo"));
  EXPECT_FALSE(has_word("ZeROs", "ZeRO"));
  EXPECT_FALSE(has_word("nemo docs", "NeMo"));
}

TEST(RunStack, TheLongestWordOfTheCitationNamesIt) {
  RunRecord run = sample_run();
  run.hardware.device = "v100_sxm3_32gb";
  run.software.cited = "ZeRO-Infinity (2104.07857), Table 1";
  EXPECT_EQ(stack_name(run), "deepspeed_infinity");
  run.software.cited = "ZeRO (1910.02054), Fig 4";
  EXPECT_EQ(stack_name(run), "zero2019");
  run.hardware.device = "a100_sxm4_80gb";
  run.software.cited = "measured with Megatron-DeepSpeed, after Megatron-LM";
  EXPECT_EQ(stack_name(run), "megatron_deepspeed");
}

// The longer word is that of the library which the trainer calls.
TEST(RunStack, ATrainerGoesBeforeItsLibrary) {
  RunRecord run = sample_run();
  run.hardware.device = "a100_sxm4_80gb";
  run.software.cited = "gpt-neox-training/README.md (GPT-NeoX, DeepSpeed)";
  EXPECT_EQ(stack_name(run), "megatron_deepspeed");
  run.software.cited = "Hugging Face with DeepSpeed";
  EXPECT_EQ(stack_name(run), "deepspeed");
}

TEST(RunStack, SoftwareIsNotOlderThanTheDevice) {
  RunRecord run = sample_run();
  run.software.cited = "NVIDIA/Megatron-LM table";
  EXPECT_EQ(stack_name(run), "megatron2020");
  run.hardware.device = "h100_sxm5_80gb";
  EXPECT_EQ(stack_name(run), "megatron_core");
}

TEST(RunStack, ATrainerIsNotItsPredecessor) {
  RunRecord run = sample_run();
  run.hardware.device = "h100_sxm5_80gb";
  run.software.cited = "NVIDIA/NeMo docs/performance_summary.md";
  EXPECT_EQ(stack_name(run), "nemo2024");
  run.software.cited = "NVIDIA-NeMo/Megatron-Bridge docs/performance-summary.md";
  EXPECT_EQ(stack_name(run), "megatron_bridge");
}

TEST(RunStack, TestsOfALibraryAreRunWithIt) {
  RunRecord run = sample_run();
  run.software.cited =
      "NVIDIA/Megatron-LM tests/functional_tests/test_cases/gpt/x/golden_values.json";
  for (const char* device : {"a100_sxm4_80gb", "h100_sxm5_80gb"}) {
    run.hardware.device = device;
    EXPECT_EQ(stack_name(run), "megatron_core");
  }
}

TEST(RunStack, OtherwiseWhatTheRunDidOnWhichDevices) {
  EXPECT_EQ(stack_name(sample_run()), "megatron2020");
  EXPECT_EQ(
      stack_name(sample_run({{"\"sequence_parallel\": false", "\"sequence_parallel\": true"}})),
      "megatron2022");
  EXPECT_EQ(stack_name(sample_run({{"\"flash_attention\": false", "\"flash_attention\": true"},
                                   {"\"zero_stage\": 0", "\"zero_stage\": 3"}})),
            "fsdp");
  EXPECT_EQ(stack_name(sample_run({{"a100_sxm4_80gb", "v100_sxm3_32gb"},
                                   {"\"zero_stage\": 0", "\"zero_stage\": 2"}})),
            "deepspeed2020");
  EXPECT_EQ(stack_name(sample_run({{"a100_sxm4_80gb", "h100_sxm5_80gb"}})), "megatron_core");
  EXPECT_EQ(stack_name(sample_run({{"a100_sxm4_80gb", "rtx_pro_6000"}, {"bf16", "fp8"}})), "llmq");
}

TEST(RunStack, GuessesAreNeverOlderThanTheDevice) {
  static const RunCatalogues catalogues;
  for (const char* device : {"a100_sxm4_80gb", "h100_sxm5_80gb", "rtx_pro_6000"}) {
    const DeviceFacts& facts = catalogues.hardware.device(device);
    for (const int stage : {0, 1, 2, 3}) {
      for (const bool fused : {false, true}) {
        RunRecord run = sample_run();
        run.parallel.zero_stage = stage;
        run.hardware.device = device;
        run.flash_attention = fused;
        const RunStack guess = found(run);
        EXPECT_FALSE(guess.stated);
        const int newest = guess.stack->newest_capability;
        EXPECT_TRUE(newest == 0 || newest >= facts.capability) << guess.stack->name;
      }
    }
  }
}

TEST(RunStack, VersionsOfOneSoftwareAreToldApartByWhatTheRunDid) {
  RunRecord run = sample_run();
  run.software.cited = "Megatron-LM, a table";
  EXPECT_EQ(stack_name(run), "megatron2020");
  run.flash_attention = true;
  EXPECT_EQ(stack_name(run), "megatron_core");
  run = sample_run({{"\"sequence_parallel\": false", "\"sequence_parallel\": true"}});
  run.software.cited = "Megatron-LM, a table";
  EXPECT_EQ(stack_name(run), "megatron2022");
}

TEST(RunStack, DeepSpeedOnLaterDevicesIsNotThatOf2020) {
  RunRecord run = sample_run({{"\"zero_stage\": 0", "\"zero_stage\": 3"}});
  run.software.cited = "DeepSpeed, a log";
  EXPECT_EQ(stack_name(run), "deepspeed");
  EXPECT_TRUE(found(run).stated);
  run.hardware.device = "v100_sxm3_32gb";
  EXPECT_EQ(stack_name(run), "deepspeed2020");
}

TEST(RunStack, ATrainerGoesBeforeTheCompilerOfItsLayers) {
  RunRecord run = sample_run();
  run.software.cited = "fms-fsdp (FSDP, torch.compile)";
  EXPECT_EQ(stack_name(run), "fsdp");
  run.software.cited = "nanoGPT (PyTorch, torch.compile)";
  EXPECT_EQ(stack_name(run), "torch_compile");
  EXPECT_TRUE(found(run).stated);
  run.software.cited = "transformers 4.50, torch.compile";
  EXPECT_EQ(stack_name(run), "hf");
}

TEST(RunStack, SoftwareThatPeopleNameIsFound) {
  RunRecord run = sample_run();
  run.hardware.device = "h100_sxm5_80gb";
  const std::pair<const char*, const char*> kNamed[] = {{"pytorch/torchtitan docs", "torchtitan"},
                                                        {"TorchTitan (2410.06511)", "torchtitan"},
                                                        {"Hugging Face Trainer", "hf"},
                                                        {"transformers 4.50", "hf"},
                                                        {"AI-Hypercomputer MaxText", "maxtext"}};
  for (const auto& [source, stack] : kNamed) {
    run.software.cited = source;
    run.flash_attention.reset();
    EXPECT_EQ(stack_name(run), stack) << source;
  }
}

}  // namespace
}  // namespace zplan
