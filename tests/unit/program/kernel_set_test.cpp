#include "planner/program/kernel_set.h"

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
