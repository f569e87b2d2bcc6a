#include "planner/certainty/step_limit.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/support/measured_cores.h"
#include "tests/unit/cost/small_machine.h"
#include "tests/unit/sim/job_builder.h"

namespace zplan {
namespace {

Cluster calibrated_in(Cluster cluster, const std::vector<std::string>& pointers) {
  for (const std::string& pointer : pointers)
    cluster.node.sources.push_back({pointer, "1", "measured", "zplan calibrate: it"});
  return cluster;
}

TEST(StepLimit, IsWhatTheBusiestResourceNeedsForOneStep) {
  ClassBuilder program;
  program.stream(Lane::kCompute, 3'000'000);        // 3 us
  program.copy(Tier::kCpu, Tier::kGpu, 1'000'000);  // 10 + 100 us
  Cluster cluster = small_machine();
  cluster.node.device.copy_latency = {10e-6};
  const StepLimit limit = step_limit(make_job(program), cluster);
  EXPECT_NEAR(limit.bound.seconds.value, 110e-6, 1e-9);
  EXPECT_EQ(limit.bound.resource, "stage 0 h2d");
  EXPECT_FALSE(limit.calibrated);
}

TEST(StepLimit, IsMeasuredWhereCalibrateMeasuredAllThatItRestsOn) {
  ClassBuilder program;
  program.stream(Lane::kCompute, 1'000'000);
  program.matmul(100, 100, 100);
  program.copy(Tier::kCpu, Tier::kGpu, 1000);
  const Job job = make_job(program);
  const auto is_measured = [&](const std::vector<std::string>& pointers) {
    return step_limit(job, calibrated_in(small_machine(), pointers)).calibrated;
  };
  const std::string products = "/device/gemm_efficiency", memory = "/device/memory_efficiency";
  EXPECT_TRUE(is_measured({products, memory}));
  EXPECT_FALSE(is_measured({products}));
  EXPECT_FALSE(is_measured({memory}));
  EXPECT_FALSE(is_measured({"/topology/links/gpu_pcie/efficiency"}));
}

// Somebody measured some device of this kind.
TEST(StepLimit, IsTheProfilesWhereAnotherMeasured) {
  ClassBuilder program;
  program.stream(Lane::kCompute, 1'000'000);
  Cluster cluster = calibrated_in(small_machine(), {"/device/memory_efficiency"});
  EXPECT_TRUE(step_limit(make_job(program), cluster).calibrated);
  cluster.node.sources.front().ref = "a paper";
  EXPECT_FALSE(step_limit(make_job(program), cluster).calibrated);
}

TEST(StepLimit, OfALinkThatDevicesShareIsTheProfiles) {
  ClassBuilder program;
  program.copy(Tier::kCpu, Tier::kGpu, 1'000'000);
  program.copy(Tier::kGpu, Tier::kCpu, 1'000'000);
  const Job job = make_job(program);
  Cluster cluster = calibrated_in(small_machine(), {"/topology/links/gpu_pcie/efficiency"});
  cluster.node.device.copy_latency = {10e-6};
  EXPECT_TRUE(step_limit(job, cluster).calibrated);
  cluster.node.host.memory_bandwidth = {10e9};
  const StepLimit limit = step_limit(job, cluster);
  EXPECT_EQ(limit.bound.by, BoundBy::kLink);
  EXPECT_EQ(limit.bound.resource, "host memory (dram)");
  EXPECT_FALSE(limit.calibrated);
}

TEST(StepLimit, OfCoresIsThatOfTheirMeasuredKernels) {
  ClassBuilder program;
  program.stream(Lane::kCompute, 1'000'000);  // 1 ms
  Job job = make_job(program);
  job.kernel_set = "cpu.f32";
  const Cluster cluster = machine_of_cores(measured_cores());
  const StepLimit limit = step_limit(job, cluster);
  EXPECT_NEAR(limit.bound.seconds.value, 1e-3, 1e-9);
  EXPECT_FALSE(limit.calibrated);
  EXPECT_TRUE(step_limit(job, calibrated_in(cluster, {"/cores/kernels"})).calibrated);
  EXPECT_FALSE(step_limit(job, calibrated_in(cluster, {"/device/memory_efficiency"})).calibrated);
}

}  // namespace
}  // namespace zplan
