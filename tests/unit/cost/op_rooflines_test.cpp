#include "planner/cost/op_rooflines.h"

#include <gtest/gtest.h>

#include "tests/unit/cost/small_machine.h"
#include "tests/unit/sim/job_builder.h"

namespace zplan {
namespace {

constexpr std::int64_t kMega = 1'000'000;

// Peak 1 TFLOP/s in fp32 and 2 in bf16, 1 TB/s, 1 us to launch.
Cluster machine() {
  Cluster cluster = small_machine();
  cluster.node.device.peaks["bf16"] = {2e12};
  cluster.node.device.launch_overhead = {1e-6};
  cluster.node.device.memory_efficiency = 0.5;
  return cluster;
}

// A product of 2e9 flop in a loop of 3, a kernel of 1 MB, and one of another lane.
Job job() {
  ClassBuilder program;
  program.stream(Lane::kCompute, kMega);
  program.repeat(3, [&] { program.matmul(1000, 1000, 1000); });
  program.stream(Lane::kCommReduce, kMega);
  return make_job(program);
}

TEST(OpRooflines, AddUpTheRunsOfTheComputeLaneTheLongestFirst) {
  const Job made = job();
  const Cluster cluster = machine();
  const CostModel model(made, cluster);
  const std::vector<OpRoofline> lines = op_rooflines(model, 0);
  ASSERT_EQ(lines.size(), 2u);
  const OpRoofline &product = lines[0], &stream = lines[1];
  EXPECT_EQ(product.kind, WorkKind::kGemm);
  EXPECT_EQ(product.runs, 3);
  EXPECT_DOUBLE_EQ(product.flops, 6e9);
  EXPECT_DOUBLE_EQ(product.bytes, 3 * 4.0 * (3e6 + 1000));
  EXPECT_NEAR(product.at_peak.value, 6e-3, 1e-12);
  EXPECT_NEAR(product.time.value, 12e-3, 1e-12) << "at half of the peak";
  EXPECT_NEAR(product.at_launch.value, 3e-6, 1e-12);
  EXPECT_EQ(product.limit(), RoofLimit::kProducts);
  EXPECT_EQ(product.least(), product.at_peak);
  EXPECT_EQ(stream.runs, 1);
  EXPECT_EQ(stream.at_peak, Seconds{0});
  EXPECT_NEAR(stream.at_memory.value, 1e-6, 1e-15) << "at the whole bandwidth";
  EXPECT_NEAR(stream.time.value, 2e-6, 1e-15) << "at half of it";
}

TEST(OpRooflines, AProductsRoofIsThePeakOfItsFormat) {
  Job made = job();
  for (View& view : made.classes[0].program.views) view.dtype = DType::kBf16;
  const Cluster cluster = machine();
  const CostModel model(made, cluster);
  EXPECT_NEAR(op_rooflines(model, 0).front().at_peak.value, 3e-3, 1e-12);
}

TEST(OpRooflines, TheGreatestOfTheLimitsIsTheRoofAndProductsComeFirstOfEquals) {
  OpRoofline line;
  line.at_peak = line.at_memory = line.at_launch = {1};
  EXPECT_EQ(line.limit(), RoofLimit::kProducts);
  line.at_memory = {2};
  EXPECT_EQ(line.limit(), RoofLimit::kMemory);
  EXPECT_EQ(line.least(), Seconds{2});
  line.at_launch = {3};
  EXPECT_EQ(line.limit(), RoofLimit::kLaunch);
  EXPECT_EQ(line.least(), Seconds{3});
  line.flops = 6;
  line.bytes = 2;
  EXPECT_EQ(line.intensity(), 3);
}

}  // namespace
}  // namespace zplan
