#include "planner/cost/step_totals.h"

#include <gtest/gtest.h>

#include "planner/cost/bounds.h"
#include "planner/cost/throughput.h"
#include "tests/support/meshes.h"
#include "tests/unit/cost/small_machine.h"
#include "tests/unit/sim/job_builder.h"

namespace zplan {
namespace {

TEST(StepTotals, ANodeCountsAsOftenAsItsLoopsRun) {
  ClassBuilder program;
  program.stream(Lane::kCompute, 1000);
  program.repeat(3, [&] {
    program.stream(Lane::kCompute, 100);
    program.repeat(
        5, [&] { program.stream(Lane::kCommReduce, 8); }, Var::kLayer);
  });
  const Job job = make_job(program);
  const Cluster cluster = small_machine();
  EXPECT_EQ(instances_per_step(job.classes[0].program), (std::vector<std::int64_t>{1, 3, 15}));
  const StepTotals totals = step_totals(CostModel(job, cluster));
  const auto lane = [&](Lane l) {
    return totals.classes[0].lane[static_cast<std::size_t>(l)].value;
  };
  EXPECT_EQ(lane(Lane::kCompute), 1300);
  EXPECT_EQ(lane(Lane::kCommReduce), 120);
}

// A kernel counts to the picosecond, a transfer, which ends on the nearest one, less one.
TEST(StepTotals, OnlyTransfersAreRounded) {
  ClassBuilder program;
  program.stream(Lane::kCompute, 1000);
  program.copy(Tier::kCpu, Tier::kGpu, 1000);  // 100 ns
  const Job job = make_job(program);
  const StepTotals totals = step_totals(CostModel(job, small_machine()));
  EXPECT_EQ(totals.classes[0].lane[static_cast<std::size_t>(Lane::kCompute)].value, 1000);
  EXPECT_EQ(totals.classes[0].lane[static_cast<std::size_t>(Lane::kH2d)].value, 99'999);
}

TEST(StepTotals, TheFirstStageAndTheOneThatComputesLongestAreWalked) {
  StepTotals totals;
  totals.classes.resize(3);
  totals.classes[1].lane[static_cast<std::size_t>(Lane::kCompute)] = SimTime{5};
  totals.classes[2].lane[static_cast<std::size_t>(Lane::kCommReduce)] = SimTime{9};
  EXPECT_EQ(walked_stages(totals), (std::set<std::size_t>{0, 1}));
}

TEST(StepTotals, EveryOpButMarksAndThoseOfTheHostCostsALaunch) {
  ClassBuilder program;
  program.repeat(4, [&] { program.stream(Lane::kCompute, 4); });
  program.accumulate_on_cpu(8);
  program.copy(Tier::kNvme, Tier::kCpu, 4096);
  program.copy(Tier::kCpu, Tier::kNvme, 4096);
  program.mark(Lane::kCompute);
  const Job job = make_job(program);
  Cluster cluster = small_machine();
  cluster.node.device.launch_overhead = {1e-6};
  EXPECT_EQ(step_totals(CostModel(job, cluster)).classes[0].launch.value, 4'000'000);
}

TEST(StepTotals, ATransferBetweenStagesLoadsItsLinksOnce) {
  ClassBuilder first, second;
  first.send(1, 100'000'000);
  second.receive(0, 100'000'000);
  const Job job = make_job({first, second});
  const Cluster cluster = small_machine();
  const StepTotals totals = step_totals(CostModel(job, cluster));
  for (const Seconds link : totals.links) EXPECT_NEAR(link.value, 1e-3, 1e-9);
}

TEST(StepTotals, ACollectiveWithinAStageLoadsLinksForEachStage) {
  ClassBuilder stage;
  stage.collective(CollectiveKind::kAllGather, testing_support::groups::kTensor, 100'000'000);
  const Job job = make_job({stage, stage}, 1, 2);
  const StepTotals totals = step_totals(CostModel(job, small_machine()));
  EXPECT_EQ(totals.links.size(), 4u) << "out of and into a GPU of each stage";
  for (const Seconds link : totals.links) EXPECT_NEAR(link.value, 0.5e-3, 1e-9);
}

TEST(TimeBound, NamesTheResourceThatNeedsLongest) {
  ClassBuilder program;
  program.stream(Lane::kCompute, 1'000'000);        // 1 us
  program.copy(Tier::kCpu, Tier::kGpu, 1'000'000);  // 10 + 100 us
  program.copy(Tier::kGpu, Tier::kCpu, 2'000'000);  // 10 + 200 us
  const Job job = make_job(program);
  Cluster cluster = small_machine();
  cluster.node.device.copy_latency = {10e-6};
  const CostModel model(job, cluster);
  const TimeBound bound = time_bound(model, step_totals(model));
  EXPECT_NEAR(bound.seconds.value, 210e-6, 1e-9);
  EXPECT_EQ(bound.resource, "stage 0 d2h");
  EXPECT_EQ(seconds_lower_bound(job, cluster), bound.seconds);
}

TEST(TimeBound, IsNeverBelowTheLaunchesOfAStep) {
  ClassBuilder program;
  program.repeat(4, [&] { program.stream(Lane::kCompute, 4); });
  const Job job = make_job(program);
  Cluster cluster = small_machine();
  cluster.node.device.launch_overhead = {1e-6};
  const CostModel model(job, cluster);
  const TimeBound bound = time_bound(model, step_totals(model));
  EXPECT_NEAR(bound.seconds.value, 4e-6, 1e-12);
  EXPECT_EQ(bound.resource, "stage 0 launch");
}

TEST(TimeBound, AddsUpWhatSeveralLanesPutOnOneLink) {
  ClassBuilder program;
  Cluster cluster = small_machine();
  cluster.node.host.memory_bandwidth = {10e9};
  program.copy(Tier::kCpu, Tier::kGpu, 1'000'000);  // each 100 us alone, on one bus 200
  program.copy(Tier::kGpu, Tier::kCpu, 1'000'000);
  const Job job = make_job(program);
  const CostModel model(job, cluster);
  const TimeBound bound = time_bound(model, step_totals(model));
  EXPECT_NEAR(bound.seconds.value, 200e-6, 1e-9);
  EXPECT_EQ(bound.resource, "host memory (dram)");
}

TEST(Throughput, DividesWorkByTimeAndRanks) {
  ClassBuilder program;
  program.repeat(2, [&] { program.matmul(100, 100, 100); });  // 2 x 2e6 flop per rank
  program.stream(Lane::kCompute, 1000);
  Job job = make_job(program, 2, 2);
  job.global_batch = 8;
  job.sequence = 128;
  EXPECT_DOUBLE_EQ(hardware_flops_per_step(job), 4 * 4e6);
  const Throughput figures = throughput(job, small_machine(), Seconds{1e-3}, 8e6);
  EXPECT_DOUBLE_EQ(figures.tokens_per_second, 1'024'000);
  EXPECT_DOUBLE_EQ(figures.model_tflops_per_gpu, 2e-3);
  EXPECT_DOUBLE_EQ(figures.hardware_tflops_per_gpu, 4e-3);
  EXPECT_DOUBLE_EQ(figures.peak_tflops, 1);
  EXPECT_DOUBLE_EQ(figures.mfu, 2e-3);
  EXPECT_DOUBLE_EQ(figures.hfu, 4e-3);
  ClassBuilder stage;
  stage.matmul(100, 100, 100);
  Job stages = make_job({stage, stage});  // two GPUs
  EXPECT_DOUBLE_EQ(throughput(stages, small_machine(), Seconds{1e-3}, 8e6).model_tflops_per_gpu,
                   4e-3);
}

}  // namespace
}  // namespace zplan
