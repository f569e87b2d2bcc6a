#include "planner/program/kernels/kernel_set.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "planner/core/error.h"

namespace zplan {
namespace {

TEST(KernelSet, IsFoundByItsId) {
  for (const KernelSet& set : kernel_sets()) {
    EXPECT_EQ(&find_kernel_set(set.id), &set);
    EXPECT_GT(set.workspace, Bytes{0});
  }
}

TEST(KernelSet, KeepsStatisticsInFullPrecision) {
  for (const KernelSet& set : kernel_sets()) {
    EXPECT_EQ(set.statistics, set.compute == DType::kF64 ? DType::kF64 : DType::kF32) << set.id;
  }
}

TEST(KernelSet, ScalesTheLossIffItComputesInHalfPrecision) {
  for (const KernelSet& set : kernel_sets()) {
    EXPECT_EQ(set.loss_scaling, set.compute == DType::kF16) << set.id;
  }
}

TEST(KernelSet, RunsOnTheCpuIffItsNameSaysSo) {
  for (const KernelSet& set : kernel_sets()) {
    EXPECT_EQ(set.runs_on == RunsOn::kCpu, set.id.starts_with("cpu.")) << set.id;
  }
}

// Every device that has 16-bit kernels has unfused ones.
TEST(KernelSet, Of16BitHasAnUnfusedTwinOnEveryCudaDevice) {
  for (const KernelSet& set : kernel_sets()) {
    const bool base = set.runs_on == RunsOn::kCuda && set.fused_attention;
    if (!base || set.compute == DType::kF32) continue;
    const KernelSet& twin = find_kernel_set(std::string(set.id) + ".unfused");
    EXPECT_EQ(twin.compute, set.compute) << set.id;
    EXPECT_EQ(twin.capability, set.capability) << set.id;
    EXPECT_EQ(twin.runs_on, RunsOn::kCuda) << set.id;
    EXPECT_FALSE(twin.fused_attention || twin.fused_neighbours) << set.id;
  }
}

// The CPU draws its masks, CUDA is planned for.
TEST(KernelSet, HasDropoutWhereAttentionIsNotFused) {
  EXPECT_TRUE(is_planned_only(KernelId::kDropoutForward, RunsOn::kCuda));
  EXPECT_FALSE(is_planned_only(KernelId::kDropoutForward, RunsOn::kCpu));
  EXPECT_TRUE(is_planned_only(KernelId::kAdamW8Bit, RunsOn::kCuda));
  EXPECT_FALSE(is_planned_only(KernelId::kAdamW8Bit, RunsOn::kCpu));
  EXPECT_FALSE(is_planned_only(KernelId::kSoftmaxForward, RunsOn::kCuda));
  EXPECT_TRUE(is_planned_only(KernelId::kGroupedForward, RunsOn::kCuda));
  EXPECT_FALSE(is_planned_only(KernelId::kGroupedForward, RunsOn::kCpu));
  for (const KernelSet& set : kernel_sets()) {
    EXPECT_EQ(set.dropout, !set.fused_attention) << set.id;
    EXPECT_EQ(declares(set, KernelId::kDropoutForward), set.dropout) << set.id;
  }
}

TEST(KernelSet, MultipliesInFp8IffItsNameSaysSo) {
  for (const KernelSet& set : kernel_sets()) {
    if (set.runs_on == RunsOn::kCpu) continue;
    const bool fp8 = set.id.find("fp8") != set.id.npos || set.id.find("fp4") != set.id.npos;
    EXPECT_EQ(multiplies_in_fp8(set, KernelId::kLinearForward), fp8) << set.id;
    EXPECT_FALSE(multiplies_in_fp8(set, KernelId::kHeadForward)) << set.id;
    EXPECT_FALSE(multiplies_in_fp8(set, KernelId::kAttentionForward)) << set.id;
    EXPECT_TRUE(!fp8 || set.compute == DType::kBf16) << set.id;
    EXPECT_TRUE(!fp8 || set.capability >= 89) << set.id;
  }
}

// On CPUs a kernel of its own rounds the operands.
TEST(KernelSet, OnCpusRoundsToFp8IffItsNameSaysSo) {
  for (const KernelSet& set : kernel_sets()) {
    if (set.runs_on != RunsOn::kCpu) continue;
    const bool fp8 = set.id.find("fp8") != std::string_view::npos;
    EXPECT_EQ(set.layer_products == LayerProducts::kRoundedToFp8, fp8) << set.id;
    EXPECT_EQ(declares(set, KernelId::kRoundFp8), fp8) << set.id;
    EXPECT_FALSE(multiplies_in_fp8(set, KernelId::kLinearForward)) << set.id;
  }
}

TEST(KernelSet, UnknownNamesTheNearest) {
  try {
    find_kernel_set("cuda.sm90.bf61");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kBadInput);
    EXPECT_THAT(error.what(), testing::HasSubstr("did you mean \"cuda.sm90.bf16\"?"));
  }
}

}  // namespace
}  // namespace zplan
