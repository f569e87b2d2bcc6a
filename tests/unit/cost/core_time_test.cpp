#include "planner/cost/core_time.h"

#include <gtest/gtest.h>

#include "planner/cost/cost_model.h"
#include "sim/simulate.h"
#include "tests/support/measured_cores.h"
#include "tests/support/meshes.h"
#include "tests/unit/sim/job_builder.h"

namespace zplan {
namespace {

constexpr std::int64_t kMicrosecond = 1'000'000;  // ps
constexpr double kRounding = 1000;                // ps, of tables that are kept as logarithms

SimTime period(const Job& job, const Cluster& cluster) {
  return to_sim_time(sim::simulate(job, cluster).period);
}

SimTime alone(const Job& job, const Cluster& cluster) {
  return CostModel(job, cluster).costs(0).front().alone;
}

TEST(CoreTime, KernelsCopiesAndMeetingsTakeTheTimesOfTheTables) {
  const Cluster cluster = machine_of_cores(measured_cores());
  ClassBuilder product, stream, copy, gather;
  product.matmul(100, 100, 100);
  stream.stream(Lane::kCompute, 50'000);
  copy.copy(Tier::kCpu, Tier::kGpu, 2000);
  gather.collective(CollectiveKind::kAllGather, testing_support::groups::kData, 2000);
  EXPECT_NEAR(alone(make_job(product), cluster).value, 1 * kMicrosecond, kRounding);
  EXPECT_NEAR(alone(make_job(stream), cluster).value, 50 * kMicrosecond, kRounding);
  EXPECT_NEAR(alone(make_job(copy), cluster).value, 2 * kMicrosecond, kRounding);
  EXPECT_NEAR(alone(make_job(gather, 2), cluster).value, 4 * kMicrosecond, kRounding);
}

// Products of one batch follow each other; attention of a batch and its heads is one product of all
// their rows, as the table has it.
TEST(CoreTime, ABatchOfProductsTakesTheTimeOfAllOfThem) {
  const Cluster cluster = machine_of_cores(measured_cores());
  Demand demand{.kind = WorkKind::kGemm, .product = {100, 100, 100}};
  const auto work = [&] {
    return kernel_on_cores(KernelId::kLinearForward, demand, cluster, {}).work.value;
  };
  EXPECT_NEAR(work(), 1e-6, 1e-9);
  demand.product.batch = 3;
  EXPECT_NEAR(work(), 3e-6, 1e-9);
  demand.product.times = 2;
  EXPECT_NEAR(work(), 6e-6, 1e-9);
}

// 2 ns per byte among two members on two cores, one on each. Four members of a group take turns on
// the two: what two took half as long.
TEST(CoreTime, MembersInExcessOfTheCoresTakeTurns) {
  CoreProfile cores = measured_cores();
  const auto work = [&](int ranks, Seconds fallback) {
    return collective_on_cores(CollectiveKind::kAllGather, ranks, {2000}, cores, fallback)
        .work.value;
  };
  EXPECT_NEAR(work(2, {}), 4e-6, 1e-9);
  cores.cores = 1;
  EXPECT_NEAR(work(2, {}), 2e-6, 1e-9) << "two on one core worked half of the time each";
  EXPECT_EQ(collective_on_cores(CollectiveKind::kAllReduce, 2, {2000}, cores, Seconds{7}).work,
            Seconds{7});
  EXPECT_EQ(copy_on_cores({2000}, cores).rests, HardwareTime::kHostLink);
  EXPECT_EQ(transfer_on_cores({2000}, cores).rests, HardwareTime::kPeerLinks);
}

// 1,000 bytes are copied in 1 us; in place there is nothing to do.
TEST(CoreTime, ACollectiveOfOneRankCopiesUnlessItIsInPlace) {
  const Cluster cluster = machine_of_cores(measured_cores());
  ClassBuilder program;
  program.collective(CollectiveKind::kAllGather, testing_support::groups::kData, 2000);
  Job job = make_job(program);
  EXPECT_LE(alone(job, cluster).value, 1);
  Program& made = job.classes[0].program;
  made.buffers.push_back(made.buffers[0]);
  made.views[1].buffer = static_cast<BufferId>(made.buffers.size() - 1);
  EXPECT_NEAR(alone(job, cluster).value, 2 * kMicrosecond, kRounding);
}

// Of 2,000 bytes each is read and written once, at 80 GB/s.
TEST(CoreTime, ACollectiveThatWasNotMeasuredReadsAndWritesHostMemory) {
  const Cluster cluster = machine_of_cores(measured_cores());
  ClassBuilder program;
  program.collective(CollectiveKind::kAllReduce, testing_support::groups::kData, 2000);
  EXPECT_NEAR(alone(make_job(program, 2), cluster).value, 50'000, kRounding);
}

// Two stages of one rank: both work, on one core each.
TEST(CoreTime, MembersOfAllStagesTakeCores) {
  const Cluster cluster = machine_of_cores(measured_cores());
  ClassBuilder stage;
  stage.collective(CollectiveKind::kAllGather, testing_support::groups::kWorld, 2000);
  const Job job = make_job({stage, stage});
  const CostModel model(job, cluster);
  double cores = 0;
  for (const LinkShare& share : model.shares(model.costs(0)[0]))
    if (model.links()[share.link].kind == "cores") cores = share.weight;
  EXPECT_EQ(cores, 2);
}

TEST(CoreTime, MoreRanksThanCoresShareThem) {
  ClassBuilder program;
  program.matmul(100, 100, 100);
  const Cluster cluster = machine_of_cores(measured_cores());
  EXPECT_NEAR(period(make_job(program, 1), cluster).value, 1 * kMicrosecond, kRounding);
  EXPECT_NEAR(period(make_job(program, 2), cluster).value, 1 * kMicrosecond, kRounding);
  EXPECT_NEAR(period(make_job(program, 4), cluster).value, 2 * kMicrosecond, kRounding);
}

TEST(CoreTime, ThreadsInsideKernelsShareTheCoresToo) {
  ClassBuilder program;
  program.matmul(100, 100, 100);
  Cluster cluster = machine_of_cores(measured_cores());
  cluster.threads_per_rank = 2;
  EXPECT_NEAR(period(make_job(program, 1), cluster).value, kMicrosecond / 2, kRounding);
  EXPECT_NEAR(period(make_job(program, 2), cluster).value, kMicrosecond, kRounding);
}

TEST(CoreTime, LanesOfARankComputeOnTheSameCores) {
  ClassBuilder program;
  program.stream(Lane::kCompute, 100'000);
  program.copy(Tier::kCpu, Tier::kGpu, 100'000);
  const Cluster cluster = machine_of_cores(measured_cores());
  EXPECT_NEAR(period(make_job(program, 1), cluster).value, 100 * kMicrosecond, kRounding);
  EXPECT_NEAR(period(make_job(program, 2), cluster).value, 200 * kMicrosecond, kRounding);
}

TEST(CoreTime, WhatCoresHaveInCommonSlowsThemTogetherAndNoneAlone) {
  CoreProfile cores = measured_cores();
  cores.products_together = 1.5;
  ClassBuilder program;
  program.matmul(100, 100, 100);
  EXPECT_NEAR(period(make_job(program, 1), machine_of_cores(cores)).value, kMicrosecond, kRounding);
  EXPECT_NEAR(period(make_job(program, 2), machine_of_cores(cores)).value, 3 * kMicrosecond / 2,
              kRounding);
  ClassBuilder streams;  // at a rate of their own
  streams.stream(Lane::kCompute, 50'000);
  EXPECT_NEAR(period(make_job(streams, 2), machine_of_cores(cores)).value, 50 * kMicrosecond,
              kRounding);
}

TEST(CoreTime, AnOperationTakesItsOverheadAndWakesUpAfterAWait) {
  CoreProfile cores = measured_cores();
  cores.operation = {1e-6};
  ClassBuilder program;
  const NodeIndex first = program.stream(Lane::kCompute, kRounding);
  program.copy(Tier::kGpu, Tier::kCpu, 1000, {Edge{first}});
  const Job job = make_job(program);
  EXPECT_NEAR(to_sim_time(sim::simulate(job, machine_of_cores(cores)).first_step).value,
              4 * kMicrosecond, kRounding);
  cores.wake = {5e-6};
  EXPECT_NEAR(to_sim_time(sim::simulate(job, machine_of_cores(cores)).first_step).value,
              9 * kMicrosecond, kRounding);
}

TEST(CoreTime, AKernelOfTheHostTakesOneCoreWhateverARankHas) {
  Cluster cluster = machine_of_cores(measured_cores());
  cluster.threads_per_rank = 2;
  const Demand host{.kind = WorkKind::kHost}, product{.kind = WorkKind::kGemm};
  EXPECT_EQ(kernel_on_cores(KernelId::kStepScalars, host, cluster, {}).threads, 1);
  EXPECT_EQ(kernel_on_cores(KernelId::kLinearForward, product, cluster, {}).threads, 2);
}

TEST(CoreTime, NobodyLaunchesForLanesThatAreThreads) {
  Cluster cluster = machine_of_cores(measured_cores());
  cluster.node.device.launch_overhead = {1e-3};
  ClassBuilder program;
  program.matmul(100, 100, 100);
  EXPECT_NEAR(period(make_job(program), cluster).value, kMicrosecond, kRounding);
}

TEST(CoreTime, ATransferToADriveOfMeasuredTimesTakesThem) {
  const auto table = [](const char* key, const char* rows) {
    return std::string(", \"") + key + "\": {\"value\": [" + rows +
           R"(], "source": "measured", "ref": "made up"})";
  };
  const Cluster cluster = machine_of_cores(measured_cores(
      table("reads", R"("4096 10", "4096000 10000")") + table("writes", R"("4096 20")")));
  ClassBuilder read, write;
  read.copy(Tier::kNvme, Tier::kCpu, 4096);
  write.copy(Tier::kCpu, Tier::kNvme, 4096);
  EXPECT_NEAR(alone(make_job(read), cluster).value, 10 * kMicrosecond, kRounding);
  EXPECT_NEAR(alone(make_job(write), cluster).value, 20 * kMicrosecond, kRounding);
}

}  // namespace
}  // namespace zplan
