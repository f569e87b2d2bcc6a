#include "planner/software/choice.h"

#include <gtest/gtest.h>

#include "planner/certainty/kind.h"
#include "planner/core/error.h"

namespace zplan {
namespace {

TEST(SoftwareChoice, SoftwareOfTodayWithRunsOnTheDevicesComesFirst) {
  for (const char* const cluster : {"dgx-h100", "dgx-h100x16", "dgx-a100x64"}) {
    const auto ordered = software_for(load_cluster(cluster), 8e9);
    ASSERT_FALSE(ordered.empty());
    EXPECT_TRUE(ordered.front().on_generation) << cluster;
    EXPECT_EQ(ordered.front().profile.newest_capability, 0) << cluster;
  }
}

TEST(SoftwareChoice, SoftwareThatTrainedModelsOfThatSizeOnSoManyDevicesComesFirst) {
  for (const MeasuredSoftware& software : software_for(load_cluster("dgx-a100x64"), 175e9)) {
    EXPECT_GE(2 * software.most_parameters, 175e9) << software.profile.name;
    EXPECT_GE(2 * software.most_devices, 512) << software.profile.name;
    break;
  }
}

TEST(SoftwareChoice, DevicesHaveShortNames) {
  EXPECT_EQ(short_device("H100-SXM5-80GB"), "H100");
  EXPECT_EQ(short_device("GeForce RTX 4090 24GB"), "RTX 4090");
  EXPECT_EQ(short_device("L40S 48GB"), "L40S");
}

TEST(SoftwareChoice, EachSoftwareStandsOnceWithItsNewestProfileThatRunsThere) {
  for (const MeasuredSoftware& software : software_for(load_cluster("dgx2x32"), 1e12)) {
    EXPECT_TRUE(is_for(software.profile, 70)) << software.profile.name;
    EXPECT_NE(software.profile.name, "deepspeed2020");
  }
}

TEST(SoftwareChoice, ClustersWithoutGpusHaveOurOwnExecutor) {
  EXPECT_TRUE(software_for(load_cluster("workstation"), 1e6).empty());
}

TEST(SoftwareChoice, SaysWhatAnAnswerRestsOn) {
  const Cluster h100 = load_cluster("dgx-h100");
  EXPECT_EQ(measured_words(measured_of(load_stack("deepspeed2020"), h100, "bf16"), h100),
            "never measured on H100");
  const MeasuredProfile nemo = measured_of(load_stack("nemo@2024"), h100, "bf16");
  EXPECT_GT(nemo.runs, 30);
  EXPECT_TRUE(
      measured_words(nemo, h100).starts_with(std::to_string(nemo.runs) + " runs on H100, "));
  const MeasuredProfile bridge = measured_of(load_stack("megatron_bridge"), h100, "bf16");
  EXPECT_EQ(measured_words(bridge), std::to_string(bridge.runs) + " fp8 runs");
}

// The chips are the same: what was measured on H100 speaks for H200.
TEST(SoftwareChoice, RunsOfTheGenerationCountAndSayWhere) {
  const Cluster h200 = load_cluster("dgx-h200x8");
  EXPECT_EQ(software_for(h200, 70e9).front().profile.name, "megatron_bridge");
  const MeasuredProfile bridge = measured_of(load_stack("megatron_bridge"), h200, "fp8");
  EXPECT_EQ(bridge.device, "H100-SXM5-80GB");
  EXPECT_NE(measured_words(bridge).find(" on H100"), std::string::npos);
}

TEST(SoftwareChoice, ChipsOfOtherMakersAreNoGenerationOfTheirKernels) {
  EXPECT_TRUE(
      same_generation("H100 96GB HBM2e (Meta Grand Teton, 500 W cap)", "GH200 (96GB HBM3)"));
  EXPECT_TRUE(same_generation("GB300 GPU (NVL72)", "B200-SXM-180GB"));
  EXPECT_FALSE(same_generation("AMD MI300X 192GB", "H100-SXM5-80GB"));
  EXPECT_FALSE(same_generation("TITAN RTX 24GB", "V100-SXM3-32GB"));
  EXPECT_FALSE(same_generation("GeForce RTX 3090 24GB", "A100-SXM4-80GB"));
  EXPECT_FALSE(same_generation("AMD MI300X 192GB", "AMD MI325X 256GB"));
  EXPECT_FALSE(software_for(load_cluster("dgx2"), 1e9).front().profile.target == "hf");
}

TEST(SoftwareRuns, RefuseWhatTheyAreNot) {
  EXPECT_THROW(parse_software_runs(R"({"schema": "zplan.software_runs/1", "runs": [{}]})", "x"),
               Error);
}

}  // namespace
}  // namespace zplan
