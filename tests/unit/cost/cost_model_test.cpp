#include "planner/cost/cost_model.h"

#include <gtest/gtest.h>

#include "planner/core/error.h"
#include "planner/cost/step_totals.h"
#include "tests/support/meshes.h"
#include "tests/unit/cost/small_machine.h"
#include "tests/unit/sim/job_builder.h"

namespace zplan {
namespace {

constexpr std::int64_t kMicrosecond = 1'000'000;  // ps
constexpr std::int64_t kMega = 1'000'000;

// The cost of the only node of stage 0.
OpCost only_cost(const Job& job, const Cluster& cluster) {
  return CostModel(job, cluster).costs(0).front();
}

std::int64_t alone_us(const Job& job, const Cluster& cluster) {
  return only_cost(job, cluster).alone.value / kMicrosecond;
}

TEST(CostModel, AMatrixProductTakesItsFlopAtTheAchievedRatePlusAnOverhead) {
  ClassBuilder program;
  program.matmul(1000, 1000, 1000);  // 2e9 flop at 0.5 TFLOP/s
  Cluster cluster = small_machine();
  cluster.node.device.gemm_overhead = {3e-6};
  const OpCost cost = only_cost(make_job(program), cluster);
  EXPECT_EQ(cost.alone.value, 4003 * kMicrosecond);
  EXPECT_EQ(cost.method, "gemm");
}

TEST(CostModel, AThinMatrixProductTakesTheTimeOfItsBytes) {
  ClassBuilder program;
  program.matmul(1, 10'000, 10'000);  // 2e8 flop: 400 us; 400 MB: 400.08 us
  const std::int64_t bytes = 4 * (10'000 + 100'000'000 + 10'000 + 10'000);
  EXPECT_EQ(only_cost(make_job(program), small_machine()).alone.value, bytes);
}

TEST(CostModel, APeakThatTheDeviceLacksIsBadInput) {
  ClassBuilder program;
  program.matmul(8, 8, 8);
  Job job = make_job(program);
  for (View& view : job.classes[0].program.views) view.dtype = DType::kBf16;
  EXPECT_THROW(CostModel(job, small_machine()), Error);
}

TEST(CostModel, TooFewDevicesAreBadInput) {
  ClassBuilder program;
  program.stream(Lane::kCompute, 4);
  EXPECT_THROW(CostModel(make_job(program, 5), small_machine()), Error);
}

TEST(CostModel, OneRankCopiesAtTheRateOfItsPcieLinkAndTwoOfASwitchShareTheUplink) {
  ClassBuilder program;
  program.copy(Tier::kCpu, Tier::kGpu, 100 * kMega);  // 10 ms at 10 GB/s
  EXPECT_EQ(alone_us(make_job(program, 1), small_machine()), 10'000);
  EXPECT_EQ(alone_us(make_job(program, 2), small_machine()), 20'000);
  EXPECT_EQ(alone_us(make_job(program, 4), small_machine()), 20'000) << "two switches";
}

TEST(CostModel, ACopyPutsItsBytesOnTheBusOfTheHostMemoryOncePerRankOfTheNode) {
  ClassBuilder program;
  program.copy(Tier::kGpu, Tier::kCpu, 4096);
  const Job job = make_job(program, 4);
  const Cluster cluster = small_machine();
  const CostModel model(job, cluster);
  double weight = 0;
  for (const LinkShare& share : model.shares(model.costs(0)[0])) {
    if (model.links()[share.link].kind == "host memory") weight += share.weight;
  }
  EXPECT_EQ(weight, 4);
}

TEST(CostModel, ACopyToDrivesIsStripedOverAllOfThem) {
  ClassBuilder program;
  program.copy(Tier::kCpu, Tier::kNvme, 100 * kMega);  // two drives of 1 GB/s
  EXPECT_EQ(alone_us(make_job(program, 1), small_machine()), 50'000);
  EXPECT_EQ(alone_us(make_job(program, 4), small_machine()), 200'000);
}

TEST(CostModel, DrivesReadAndWriteAtTheirOwnRates) {
  Cluster cluster = small_machine();
  cluster.node.topology.nvme_write = {{0.5e9}, 1};
  cluster.node.nvme.latency = {100e-6};
  cluster.node.device.copy_latency = {7e-6};
  ClassBuilder reads, writes;
  reads.copy(Tier::kNvme, Tier::kCpu, 100 * kMega);
  writes.copy(Tier::kCpu, Tier::kNvme, 100 * kMega);
  EXPECT_EQ(alone_us(make_job(reads), cluster), 50'100);
  EXPECT_EQ(alone_us(make_job(writes), cluster), 100'100);
}

TEST(CostModel, ReadingAndWritingShareTheTimeOfADrive) {
  Cluster cluster = small_machine();
  cluster.node.topology.nvme_write = {{0.5e9}, 1};
  ClassBuilder program;
  program.copy(Tier::kNvme, Tier::kCpu, 100 * kMega);
  program.copy(Tier::kCpu, Tier::kNvme, 100 * kMega);
  const Job job = make_job(program);
  const CostModel model(job, cluster);
  const StepTotals totals = step_totals(model);
  double seconds = 0;
  for (std::size_t i = 0; i < totals.links.size(); ++i) {
    if (model.links()[i].kind == "NVMe drive") seconds += totals.links[i].value;
  }
  EXPECT_NEAR(seconds, 0.05 + 0.1, 1e-9);
}

TEST(CostModel, WritingTakesTheShareOfADrivesTimeThatReadsDoNotKeep) {
  Cluster cluster = small_machine();
  cluster.node.nvme.read_beside_write = 0.5;
  ClassBuilder program;
  program.copy(Tier::kCpu, Tier::kNvme, 100 * kMega);
  const Job job = make_job(program);
  const CostModel model(job, cluster);
  EXPECT_EQ(model.costs(0)[0].alone.value, 50'000 * kMicrosecond) << "alone at its own rate";
  const StepTotals totals = step_totals(model);
  for (std::size_t i = 0; i < totals.links.size(); ++i) {
    if (model.links()[i].kind != "NVMe drive") continue;
    EXPECT_NEAR(totals.links[i].value, 0.025, 1e-9);
  }
}

TEST(CostModel, DrivesWaitForTheHostAfterEachByteThatMoves) {
  Cluster cluster = small_machine();
  cluster.node.nvme.read_beside_write = 0.5;
  cluster.node.topology.nvme_write = {{0.5e9}, 1};
  ClassBuilder program;
  program.copy(Tier::kNvme, Tier::kCpu, 100 * kMega);
  program.copy(Tier::kCpu, Tier::kNvme, 100 * kMega);
  const Job job = make_job(program);
  const auto alone = [&](std::size_t i) {
    return to_seconds(CostModel(job, cluster).costs(0)[i].alone).value;
  };
  const double reads = alone(0), writes = alone(1);
  cluster.stack.host_drives = 0.3;  // of a GB, so 0.03 s of each
  EXPECT_NEAR(alone(0), reads + 0.03, 1e-9);
  EXPECT_NEAR(alone(1), writes + 0.03, 1e-9);
  const CostModel model(job, cluster);
  for (const OpCost& cost : model.costs(0))
    for (const Reliance& row : cost.rests.rows()) {
      if (row.constant != constant_of(&StackRates::host_drives)) continue;
      EXPECT_NEAR(row.elasticity, 0.03 / to_seconds(cost.alone).value, 1e-6);
    }
  const StepTotals totals = step_totals(model);
  double seconds = 0;
  for (std::size_t i = 0; i < totals.links.size(); ++i)
    if (model.links()[i].kind == "NVMe drive") seconds = std::max(seconds, totals.links[i].value);
  EXPECT_NEAR(seconds, reads + writes + 0.06, 1e-9) << "in turn";
}

TEST(CostModel, SumsOfInputGradientsHideBesideWeightGradients) {
  Cluster cluster = small_machine();
  cluster.stack.tensor_exposed = 0.5;
  cluster.stack.backward_exposed = 0.25;
  ClassBuilder program;
  program.collective(CollectiveKind::kAllReduce, testing_support::groups::kTensor, 40 * kMega, {},
                     Lane::kCommTensor);  // 600 us
  Job job = make_job(program, 1, 4);
  Role& role = job.classes[0].program.nodes[0].role;
  role = {Phase::kForward, Part::kProjection, Action::kSumRanks};
  EXPECT_EQ(alone_us(job, cluster), 300);
  role.phase = Phase::kBackward;
  EXPECT_EQ(alone_us(job, cluster), 75);
  role.action = Action::kGatherRanks;
  EXPECT_EQ(alone_us(job, cluster), 300);
}

TEST(CostModel, StagedCopiesReachAShareOfTheDevicesLink) {
  Cluster cluster = small_machine();
  cluster.stack.staged_copies = 4;
  ClassBuilder program;
  program.copy(Tier::kGpu, Tier::kCpu, 100 * kMega);  // 10 ms at 10 GB/s
  program.copy(Tier::kCpu, Tier::kGpu, 100 * kMega);
  Job job = make_job(program);
  std::vector<Node>& nodes = job.classes[0].program.nodes;
  const auto alone = [&](std::size_t i) {
    return CostModel(job, cluster).costs(0)[i].alone.value / kMicrosecond;
  };
  nodes[0].role = {Phase::kUpdate, Part::kLayer, Action::kDownload};
  nodes[1].role = {Phase::kForward, Part::kLayer, Action::kUpload};
  EXPECT_EQ(alone(0), 10'000) << "optimizer states";
  EXPECT_EQ(alone(1), 10'000) << "parameters";
  nodes[0].role.phase = Phase::kBackward;
  nodes[1].role = {Phase::kRecompute, Part::kBoundary, Action::kUpload};
  EXPECT_EQ(alone(0), 40'000) << "gradients";
  EXPECT_EQ(alone(1), 40'000) << "checkpoints";
}

TEST(CostModel, StagedCheckpointsLeaveAsTheyCome) {
  Cluster cluster = small_machine();
  cluster.stack.staged_copies = 4;
  ClassBuilder program;
  program.copy(Tier::kGpu, Tier::kCpu, 100 * kMega);  // 10 ms at 10 GB/s
  Job job = make_job(program);
  job.classes[0].program.nodes[0].role = {Phase::kForward, Part::kBoundary, Action::kDownload};
  EXPECT_EQ(alone_us(job, cluster), 40'000);
}

// Compute does not go on beside what it waits for.
TEST(CostModel, OnlyCollectivesBesideComputeSlowIt) {
  Cluster cluster = small_machine();
  cluster.stack.overlap_slowdown = 0.25;
  cluster.stack.copy_slowdown = 0.5;
  const auto slowdown = [&](const Group& group, Lane lane) {
    ClassBuilder program;
    program.collective(CollectiveKind::kAllReduce, group, 40 * kMega, {}, lane);
    return only_cost(make_job(program, 2, 2), cluster).slowdown;
  };
  EXPECT_EQ(slowdown(testing_support::groups::kData, Lane::kCommReduce), 0.25);
  EXPECT_EQ(slowdown(testing_support::groups::kData, Lane::kCommGather), 0.25);
  EXPECT_EQ(slowdown(testing_support::groups::kTensor, Lane::kCommTensor), 0);
  ClassBuilder copies;
  copies.copy(Tier::kCpu, Tier::kGpu, 100);
  EXPECT_EQ(only_cost(make_job(copies), cluster).slowdown, 0.5);
  ClassBuilder reads;
  reads.copy(Tier::kNvme, Tier::kCpu, 100);
  EXPECT_EQ(only_cost(make_job(reads), cluster).slowdown, 0);
}

// Gathers and sums hide behind pieces of products, not what ranks hand on to each other.
TEST(CostModel, WhatRanksHandOnIsExposedInFull) {
  Cluster cluster = small_machine();
  cluster.stack.tensor_exposed = 0.5;
  const auto alone = [&](CollectiveKind kind) {
    ClassBuilder program;
    program.collective(kind, testing_support::groups::kTensor, 40 * kMega, {}, Lane::kCommTensor);
    return alone_us(make_job(program, 1, 4), cluster);
  };
  EXPECT_EQ(alone(CollectiveKind::kAllGather), 150) << "half of 30 MB at 100 GB/s";
  EXPECT_EQ(alone(CollectiveKind::kShift), 400) << "40 MB at 100 GB/s";
  EXPECT_EQ(alone(CollectiveKind::kAllToAll), 300) << "30 MB at 100 GB/s";
}

// host_collective is for 8 ranks, in proportion to how many meet; a send and its receive are two.
TEST(CostModel, TheHostLaunchesByPassAndByTheRanksThatMeet) {
  Cluster cluster = small_machine(2);
  cluster.node.device.launch_overhead = {1e-6};
  cluster.stack.host_forward = 3e-6;
  cluster.stack.host_backward = 5e-6;
  cluster.stack.host_collective = 80e-6;
  const auto launch = [&](ClassBuilder program, Phase phase, int dp) {
    Job job = make_job(std::move(program), dp);
    job.classes[0].program.nodes[0].role.phase = phase;
    return only_cost(job, cluster).launch.value / kMicrosecond;
  };
  ClassBuilder kernel, gather;
  kernel.stream(Lane::kCompute, 4);
  gather.collective(CollectiveKind::kAllGather, testing_support::groups::kData, 4096);
  EXPECT_EQ(launch(kernel, Phase::kForward, 1), 3);
  EXPECT_EQ(launch(kernel, Phase::kRecompute, 1), 3);
  EXPECT_EQ(launch(kernel, Phase::kBackward, 1), 5);
  EXPECT_EQ(launch(kernel, Phase::kUpdate, 1), 1);
  EXPECT_EQ(launch(gather, Phase::kUpdate, 2), 1 + 20);
  EXPECT_EQ(launch(gather, Phase::kUpdate, 8), 1 + 80);
  ClassBuilder first, second;
  first.send(1, 4096);
  second.receive(0, 4096);
  Job job = make_job({first, second}, 4);
  job.classes[0].program.nodes[0].role.phase = Phase::kUpdate;
  EXPECT_EQ(only_cost(job, cluster).launch.value / kMicrosecond, 1 + 20);
}

// Once per step, before the first operation, in addition to its launch.
TEST(CostModel, TheHostWaitsForTheDeviceOncePerStep) {
  Cluster cluster = small_machine();
  cluster.node.device.launch_overhead = {1e-6};
  cluster.stack.host_step = 7e-6;
  ClassBuilder program;
  program.stream(Lane::kCompute, 4);
  program.stream(Lane::kCompute, 4);
  const Job job = make_job(program);
  const CostModel model(job, cluster);
  EXPECT_EQ(model.costs(0)[0].launch.value, 8 * kMicrosecond);
  EXPECT_EQ(model.costs(0)[0].host_waits, HostWait::kDevice);
  EXPECT_EQ(model.costs(0)[1].launch.value, 1 * kMicrosecond);
  EXPECT_EQ(model.costs(0)[1].host_waits, HostWait::kNothing);
}

TEST(CostModel, AStacksOverallFactorHoldsForEveryOperation) {
  Cluster cluster = small_machine(2);
  cluster.node.device.launch_overhead = {1e-6};
  cluster.node.device.copy_latency = {10e-6};
  cluster.node.latency.collective_intra = {5e-6};
  cluster.node.latency.p2p_intra = {2e-6};
  ClassBuilder first, second;
  first.matmul(1000, 1000, 1000);
  first.stream(Lane::kCompute, 1000);
  first.copy(Tier::kGpu, Tier::kGpu, kMega);
  first.copy(Tier::kCpu, Tier::kGpu, kMega);
  first.accumulate_on_cpu(kMega);
  first.collective(CollectiveKind::kAllGather, testing_support::groups::kData, kMega);
  first.send(1, kMega);
  second.receive(0, kMega);
  const Job job = make_job({first, second}, 2);
  Cluster twice = cluster;
  twice.stack.overall = 2;
  const CostModel model(job, cluster), slow(job, twice);
  for (std::size_t i = 0; i < model.costs(0).size(); ++i) {
    const OpCost &one = model.costs(0)[i], &two = slow.costs(0)[i];
    EXPECT_NEAR(two.alone.value, 2 * one.alone.value, 2) << i;
    EXPECT_NEAR(two.fixed.value, 2 * one.fixed.value, 2) << i;
    EXPECT_EQ(two.launch, one.launch * 2) << i;
  }
}

// Two stages of two ranks in a node: each rank has a fourth of its 8 cores of 1 GFLOP/s.
TEST(CostModel, RanksOfAllStagesInANodeShareItsCores) {
  ClassBuilder program;
  program.accumulate_on_cpu(8 * kMega);
  Cluster cluster = small_machine();
  cluster.node.host.memory_bandwidth = {1e15};
  cluster.node.topology.dram = {{1e15}, 1};
  EXPECT_EQ(alone_us(make_job({program, program}, 2), cluster), 4'000);
}

TEST(CostModel, ACollectiveOfOneRankThatIsNotInPlaceReadsAndWrites) {
  ClassBuilder program;
  program.collective(CollectiveKind::kAllGather, testing_support::groups::kData, kMega);
  Job job = make_job(program, 1);
  Program& made = job.classes[0].program;
  made.buffers.push_back(made.buffers[0]);
  made.views[1].buffer = static_cast<BufferId>(made.buffers.size() - 1);
  EXPECT_EQ(only_cost(job, small_machine()).alone.value, 2 * kMega) << "2 MB at 1 TB/s";
}

// Ten ranks on nodes of 4: the last node has two, on one NIC of 5 GB/s. Of ten parts of 8 MB each
// of the two sends 8 to the other nodes.
TEST(CostModel, AnAllToAllOverUnevenNodesTakesTheTimeOfTheNarrowestPort) {
  ClassBuilder program;
  program.collective(CollectiveKind::kAllToAll, testing_support::groups::kData, 80 * kMega);
  EXPECT_EQ(alone_us(make_job(program, 10), small_machine(3)), 25'600);
}

// A stack that reaches half of the network reaches a fifth of that with gathers of updates.
TEST(CostModel, TheSharesOfTheNetworkMultiply) {
  Cluster cluster = small_machine(2);
  cluster.stack.network = 0.5;
  cluster.stack.gather_network = 0.2;
  ClassBuilder program;
  program.collective(CollectiveKind::kAllGather, testing_support::groups::kData, 80 * kMega);
  Job job = make_job(program, 8);
  job.classes[0].program.nodes[0].role = {Phase::kUpdate, Part::kLayer, Action::kGather};
  EXPECT_EQ(alone_us(job, cluster), 70'000) << "7 ms at a tenth of the network";
}

// A ring of updated parameters has so many of a node's ports, whoever gathers beside it: four
// groups of a rank per node each have a quarter of the network, which is less than half of it and
// twice an eighth.
TEST(CostModel, GroupsThatGatherUpdatesSideBySideEachHaveTheirPorts) {
  const auto gather = [](double ports) {
    Cluster cluster = small_machine(2);
    cluster.stack.gather_network = ports;
    ClassBuilder program;
    program.collective(CollectiveKind::kAllGather, testing_support::groups::kData, 80 * kMega);
    Job job = make_job(program, 2, 4);
    job.classes[0].program.nodes[0].role = {Phase::kUpdate, Part::kLayer, Action::kGather};
    return alone_us(job, cluster);
  };
  EXPECT_EQ(gather(0.5), gather(1));
  EXPECT_EQ(gather(0.125), 2 * gather(1));
}

// [PyTorch torch/distributed/_functional_collectives.py] Gathered parts are joined along the first
// dimension, and copied where the sequence is the second: 80 MB are read and written at 1 TB/s.
// Sums of whole activations need no copy, nor do other lanes' collectives.
TEST(CostModel, SequencesBehindTheBatchAreCopiedWhenTheyAreGathered) {
  const auto takes = [](CollectiveKind kind, Lane lane, bool batch_first) {
    Cluster cluster = small_machine();
    cluster.stack.batch_first = batch_first;
    ClassBuilder program;
    program.collective(kind, testing_support::groups::kData, 80 * kMega);
    Job job = make_job(program, 4);
    job.classes[0].program.nodes[0].lane = lane;
    return alone_us(job, cluster);
  };
  const auto copies = [&](CollectiveKind kind, Lane lane) {
    return takes(kind, lane, true) - takes(kind, lane, false);
  };
  EXPECT_EQ(copies(CollectiveKind::kAllGather, Lane::kCommTensor), 160);
  EXPECT_EQ(copies(CollectiveKind::kReduceScatter, Lane::kCommTensor), 160);
  EXPECT_EQ(copies(CollectiveKind::kAllReduce, Lane::kCommTensor), 0);
  EXPECT_EQ(copies(CollectiveKind::kAllGather, Lane::kCommGather), 0);
}

// 70 MB into and out of each of two nodes at 1 GB/s, where the ports have 10. Four groups of a rank
// of each node have a quarter of the ports each, 2.5 GB/s: what one of them is limited to, too, and
// no less for the others beside it. What a rank sends to another is no ring.
TEST(CostModel, RingsOfAGroupLeaveANodeAsFastAsTheirLibraryWasMeasuredTo) {
  Cluster cluster = small_machine(2);
  cluster.node.topology.ring_out = BytesPerSecond{1e9};
  const auto takes = [&](CollectiveKind kind, int ranks, int beside) {
    ClassBuilder program;
    program.collective(kind, testing_support::groups::kData, 80 * kMega);
    return alone_us(make_job(program, ranks, beside), cluster);
  };
  EXPECT_EQ(takes(CollectiveKind::kAllGather, 8, 1), 70'000);
  EXPECT_EQ(takes(CollectiveKind::kAllGather, 2, 4), 40'000);
  const auto pairs = takes(CollectiveKind::kAllToAll, 8, 1);
  cluster.node.topology.ring_out = BytesPerSecond{2.5e9};
  EXPECT_EQ(takes(CollectiveKind::kAllGather, 2, 4), 16'000);
  cluster.node.topology.ring_out.reset();
  EXPECT_EQ(takes(CollectiveKind::kAllGather, 2, 4), 16'000);
  EXPECT_EQ(takes(CollectiveKind::kAllToAll, 8, 1), pairs);
}

// 2 data parallel replicas of 4 tensor parallel ranks, each of which holds all of the boundary of a
// micro-batch of 2 sequences of 1,250 tokens.
TEST(CostModel, TensorParallelRanksSendASliceOfABoundaryThatAllOfThemHold) {
  const auto bytes = [](int tokens, int tp, double sliced) {
    Cluster cluster = small_machine(4);
    cluster.stack.sliced_boundary = sliced;
    ClassBuilder first, second;
    first.send(1, 4 * tokens);
    second.receive(0, 4 * tokens);
    Job job = make_job({first, second}, 2, tp);
    job.micro_batch = 2;
    job.sequence = 1250;
    return only_cost(job, cluster).bytes.value;
  };
  EXPECT_EQ(bytes(2500, 4, 0), 10'000);
  EXPECT_EQ(bytes(2500, 4, 1), 2'500);
  EXPECT_EQ(bytes(2500, 4, 0.5), 6'250);
  EXPECT_EQ(bytes(625, 4, 1), 2'500) << "sequence parallelism has split it already";
  EXPECT_EQ(bytes(2500, 1, 1), 10'000);
}

// d log(time) / d log(constant) of a constant; 0: none.
double elasticity(const OpCost& cost, Constant constant) {
  for (const Reliance& row : cost.rests.rows())
    if (row.constant == constant) return row.elasticity;
  return 0;
}

// 10 us before the first byte and 10 of transfer: half of the time follows the link.
TEST(CostModel, WhatPassesBeforeATransferDoesNotFollowItsLinks) {
  Cluster cluster = small_machine();
  cluster.node.device.copy_latency = {10e-6};
  ClassBuilder program;
  program.copy(Tier::kCpu, Tier::kGpu, 100'000);
  const OpCost cost = only_cost(make_job(program), cluster);
  EXPECT_NEAR(elasticity(cost, constant_of(HardwareTime::kHostLink)), 0.5, 1e-6);
  EXPECT_NEAR(elasticity(cost, constant_of(&StackRates::host_copies)), 0.5, 1e-6);
}

TEST(CostModel, ACollectiveRestsOnTheLinksThatLimitIt) {
  const auto found = [](int dp, HardwareTime kind) {
    ClassBuilder program;
    program.collective(CollectiveKind::kAllGather, testing_support::groups::kData, 80 * kMega);
    return elasticity(only_cost(make_job(program, dp), small_machine(2)), constant_of(kind));
  };
  EXPECT_NEAR(found(4, HardwareTime::kPeerLinks), 1, 1e-6);
  EXPECT_EQ(found(4, HardwareTime::kNetwork), 0);
  EXPECT_NEAR(found(8, HardwareTime::kNetwork), 1, 1e-6);
  EXPECT_NEAR(found(8, HardwareTime::kPeerLinks), 0, 1e-6);
  ClassBuilder program;
  program.collective(CollectiveKind::kAllGather, testing_support::groups::kData, 80 * kMega);
  const OpCost far = only_cost(make_job(program, 8), small_machine(2));
  EXPECT_NEAR(elasticity(far, constant_of(&StackRates::network)), -1, 1e-6)
      << "twice the share is half the time";
}

TEST(CostModel, DrivesAreReachedThroughTheHostOnly) {
  ClassBuilder program;
  program.copy(Tier::kNvme, Tier::kGpu, 4096);
  EXPECT_THROW(CostModel(make_job(program), small_machine()), Error);
  Cluster without = small_machine();
  without.node.topology.nvme_drives = 0;
  ClassBuilder reads;
  reads.copy(Tier::kNvme, Tier::kCpu, 4096);
  EXPECT_THROW(CostModel(make_job(reads), without), Error);
}

TEST(CostModel, ACopyWithinATierReadsAndWritesItsMemory) {
  ClassBuilder gpu, host;
  gpu.copy(Tier::kGpu, Tier::kGpu, 1 * kMega);  // 2 MB at 1 TB/s
  EXPECT_EQ(alone_us(make_job(gpu), small_machine()), 2);
  host.copy(Tier::kCpu, Tier::kCpu, 40 * kMega);  // 80 MB at 80 GB/s, two ranks 160
  EXPECT_EQ(alone_us(make_job(host, 1), small_machine()), 1000);
  EXPECT_EQ(alone_us(make_job(host, 2), small_machine()), 2000);
}

TEST(CostModel, ACpuKernelStreamsThroughTheSharedHostMemoryOrIsBoundByItsCores) {
  ClassBuilder program;
  program.accumulate_on_cpu(8 * kMega);  // 96 MB at 80 GB/s: 1.2 ms; 8e6 flop at 8 GFLOP/s: 1 ms
  EXPECT_EQ(alone_us(make_job(program, 1), small_machine()), 1'200);
  EXPECT_EQ(alone_us(make_job(program, 4), small_machine()), 4'800) << "both are shared";
  Cluster weak = small_machine();
  weak.node.host.cpu_cores = 2;
  EXPECT_EQ(alone_us(make_job(program, 1), weak), 4'000);
  Cluster inefficient = small_machine();
  inefficient.node.host.cpu_memory_efficiency = 0.5;
  EXPECT_EQ(alone_us(make_job(program, 1), inefficient), 2'400);
}

// [Patarasuk09] each of n members sends (n-1)/n of the buffer once, for an all-reduce twice.
TEST(CostModel, ARingInsideANodeRunsAtTheRateOfThePeerLink) {
  Cluster cluster = small_machine();
  cluster.node.latency.collective_intra = {5e-6};
  for (const auto kind : {CollectiveKind::kAllGather, CollectiveKind::kReduceScatter}) {
    ClassBuilder program;
    program.collective(kind, testing_support::groups::kData, 100 * kMega);  // 75 MB at 100 GB/s
    EXPECT_EQ(alone_us(make_job(program, 4), cluster), 5 + 750);
  }
  ClassBuilder program;
  program.collective(CollectiveKind::kAllReduce, testing_support::groups::kData, 100 * kMega);
  EXPECT_EQ(alone_us(make_job(program, 4), cluster), 5 + 1500) << "one start";
}

// [derived] A pipelined chain: each link carries all of it once.
TEST(CostModel, ABroadcastSendsTheWholeBufferOverEveryLink) {
  Cluster cluster = small_machine();
  cluster.node.latency.collective_intra = {5e-6};
  for (const auto kind : {CollectiveKind::kBroadcast, CollectiveKind::kReduce}) {
    ClassBuilder program;
    program.collective(kind, testing_support::groups::kData, 100 * kMega);  // at 100 GB/s
    EXPECT_EQ(alone_us(make_job(program, 4), cluster), 5 + 1000);
  }
}

// Four ranks that each copy a quarter over two uplinks, against one that copies it all.
TEST(CostModel, WhatALayersOwnerDoesLoadsItsLinksOnly) {
  const auto owned = [](ClassBuilder program) {
    Job job = make_job(std::move(program), 4);
    job.classes[0].program.nodes[0].group = testing_support::groups::kShard;
    return alone_us(job, small_machine());
  };
  ClassBuilder part, whole, cpu;
  part.copy(Tier::kCpu, Tier::kGpu, 25 * kMega);
  whole.copy(Tier::kCpu, Tier::kGpu, 100 * kMega);
  EXPECT_EQ(alone_us(make_job(part, 4), small_machine()), 5'000);
  EXPECT_EQ(owned(whole), 10'000);
  cpu.accumulate_on_cpu(8 * kMega);  // 96 MB at 80 GB/s
  EXPECT_EQ(owned(cpu), 4'000) << "a fourth of 8 cores";
}

TEST(CostModel, ARingOverNodesIsSpreadOverTheNicsOfANode) {
  Cluster cluster = small_machine(2);
  cluster.node.latency = {.collective_inter = {1e-6}, .per_log2_nodes = {2e-6}, .per_node = {3e-6}};
  ClassBuilder program;
  program.collective(CollectiveKind::kAllGather, testing_support::groups::kData, 80 * kMega);
  cluster.node.latency.collective_intra = {5e-6};
  // 70 MB into and out of each node through two NICs of 5 GB/s; one hop between nodes: what the
  // start within a node takes stays, 1 + 3 are added.
  EXPECT_EQ(alone_us(make_job(program, 8), cluster), 7'000 + 5 + 4);
  // Five ranks: the second node holds one, with one NIC. 64 MB at 5 GB/s.
  EXPECT_EQ(alone_us(make_job(program, 5), cluster), 12'800 + 5 + 4);
}

TEST(CostModel, AStackThatReachesHalfOfTheNetworkTakesTwiceAsLongBetweenNodesOnly) {
  const auto gather = [](int nodes, StackRates stack, Phase phase) {
    Cluster cluster = small_machine(2);
    cluster.stack = stack;
    ClassBuilder program;
    program.collective(CollectiveKind::kAllGather, testing_support::groups::kData, 80 * kMega);
    Job job = make_job(program, nodes * 4);
    job.classes[0].program.nodes[0].role = {phase, Part::kLayer, Action::kGather};
    return alone_us(job, cluster);
  };
  const StackRates half{.network = 0.5}, late{.gather_network = 0.1};
  EXPECT_EQ(gather(1, half, Phase::kForward), 600);
  EXPECT_EQ(gather(2, {}, Phase::kForward), 7'000);
  EXPECT_EQ(gather(2, half, Phase::kForward), 14'000);
  EXPECT_EQ(gather(2, late, Phase::kForward), 7'000);
  EXPECT_EQ(gather(2, late, Phase::kUpdate), 70'000) << "of updated parameters";
}

TEST(CostModel, OfTensorParallelCollectivesTheExposedShareCounts) {
  Cluster cluster = small_machine();
  cluster.node.latency.collective_intra = {8e-6};
  cluster.stack.tensor_exposed = 0.25;
  const auto reduce = [&](const Group& group, int dp, int tp) {
    ClassBuilder program;
    const Lane lane = tp > 1 ? Lane::kCommTensor : Lane::kCommReduce;
    program.collective(CollectiveKind::kAllReduce, group, 100 * kMega, {}, lane);
    return alone_us(make_job(program, dp, tp), cluster);
  };
  EXPECT_EQ(reduce(testing_support::groups::kTensor, 1, 4), 2 + 375);
  EXPECT_EQ(reduce(testing_support::groups::kData, 4, 1), 8 + 1500);
}

// The peer links of the profile are 74 % of 450 GB/s; measured rings reach more.
TEST(CostModel, AMeasuredTransferStandsWhereTheLinksAreSaidToBeSlower) {
  Cluster cluster = load_cluster("dgx-h100");
  cluster.node.device.collectives =
      collective_profile("h100_sxm", {.peer = {450e9}, .pcie = {63e9}});
  ClassBuilder program;
  program.collective(CollectiveKind::kAllReduce, testing_support::groups::kData, 1 << 29);
  const OpCost cost = only_cost(make_job(program, 8), cluster);
  EXPECT_EQ(cost.method, "NVLS");
  EXPECT_NEAR(to_seconds(cost.alone).value, 2111.1e-6, 5e-6);  // collectives_h100_sxm.csv
  EXPECT_LT(cost.bytes, Bytes{std::int64_t{1 << 29} * 9 / 8 + 1});
}

// One rank in each of two nodes, as measured: each of a node's four ranks belongs to such a group,
// and two of them share a NIC. Of the large sums only the network counts.
TEST(CostModel, GroupsBesideAGroupMeasuredAloneShareItsNetwork) {
  Cluster cluster = small_machine(2);
  auto measured = std::make_shared<CollectiveProfile>(
      *collective_profile("", {.peer = {100e9}, .pcie = {10e9}}));
  CollectiveCurve& curve = measured->curves[{MeasuredCollective::kAllReduce, 2, 2}];
  curve.add(100 * kMega, {0.050});
  cluster.node.device.collectives = measured;
  ClassBuilder program;
  program.collective(CollectiveKind::kAllReduce, testing_support::groups::kData, 100 * kMega);
  EXPECT_NEAR(static_cast<double>(alone_us(make_job(program, 2, 4), cluster)), 100e3, 1e3);
  cluster.node.topology.nics_per_switch = 2;
  EXPECT_NEAR(static_cast<double>(alone_us(make_job(program, 2, 4), cluster)), 50e3, 1);
}

// Returns what collectives of groups of every size take on two nodes.
std::vector<std::int64_t> times_over_nodes(const Cluster& cluster) {
  const int in_node = cluster.node.devices_per_node;
  std::vector<std::int64_t> times;
  for (const CollectiveKind kind : {CollectiveKind::kAllReduce, CollectiveKind::kAllGather,
                                    CollectiveKind::kAllToAll, CollectiveKind::kShift}) {
    for (int tp = 1; tp <= in_node; tp *= 2) {
      ClassBuilder program;
      program.collective(kind, testing_support::groups::kData, 100 * kMega);
      times.push_back(only_cost(make_job(program, 2 * in_node / tp, tp), cluster).alone.value);
    }
  }
  return times;
}

TEST(CostModel, TheTrafficOfAGpuIsSpreadOverItsOwnPorts) {
  Cluster one = small_machine(2), four = small_machine(2);
  one.node.topology.nics_per_switch = 2;
  four.node.topology.nics_per_switch = 8;
  four.node.topology.nic.capacity = one.node.topology.nic.capacity / 4;
  EXPECT_EQ(times_over_nodes(one), times_over_nodes(four));
}

// Both nodes have 3200 Gbit/s, one in 32 ports and one in 8. Their figures of the network differ
// only in the start of a transfer.
TEST(CostModel, NodesWithTheSameNetworkForEachGpuTakeTheSameTime) {
  const Cluster dgx = load_cluster("dgx-h100x2");
  Cluster aws = load_cluster("aws-p5x2");
  EXPECT_EQ(aws.node.topology.nic.efficiency, dgx.node.topology.nic.efficiency);
  EXPECT_GT(aws.node.latency.transport.value, dgx.node.latency.transport.value);
  aws.node.latency = dgx.node.latency;
  EXPECT_EQ(times_over_nodes(aws), times_over_nodes(dgx));
}

TEST(CostModel, WithoutAPeerLinkARingGoesTwiceThroughHostMemory) {
  Cluster cluster = small_machine();
  cluster.node.topology.gpu_peer.reset();
  ClassBuilder program;
  program.collective(CollectiveKind::kAllGather, testing_support::groups::kData, 100 * kMega);
  // 75 MB per rank; two ranks per uplink of 10 GB/s in each direction.
  EXPECT_EQ(alone_us(make_job(program, 4), cluster), 15'000);
  // Four ranks write and read 75 MB each: 600 MB on the bus.
  cluster.node.host.memory_bandwidth = {20e9};
  EXPECT_EQ(alone_us(make_job(program, 4), cluster), 30'000);
}

TEST(CostModel, AGroupOfOneRankMovesNothing) {
  ClassBuilder program;
  program.collective(CollectiveKind::kAllGather, testing_support::groups::kData, 100 * kMega);
  EXPECT_EQ(only_cost(make_job(program, 1), small_machine()).alone.value, 0);
}

// Ranks of a tensor parallel group are neighbours: those of 2 stay in a node.
TEST(CostModel, ARingCarriesTheGroupsBesideIt) {
  const Cluster cluster = small_machine(2);
  const auto gather = [&](const Group& group, int dp, int tp, int shards) {
    ClassBuilder program;
    program.collective(CollectiveKind::kAllGather, group, 40 * kMega);
    Job job = make_job(program, dp, tp);
    job.mesh = testing_support::mesh_of({.dp = dp, .tp = tp, .shards = shards});
    return alone_us(job, cluster);
  };
  // Two of two in a node, each on its own peer links of 100 GB/s: 20 MB.
  EXPECT_EQ(gather(testing_support::groups::kTensor, 4, 2, 4), 200);
  // Four members, two per node; the two groups share both NICs of 5 GB/s: 2 x 30 MB / 10 GB/s.
  EXPECT_EQ(gather(testing_support::groups::kData, 4, 2, 4), 6'000);
  // As many bytes each, but one group of eight: 35 MB.
  EXPECT_EQ(gather(testing_support::groups::kData, 8, 1, 8), 3'500);
  // Shards over the four ranks of a node; their replicas are one rank in each: four groups of two.
  EXPECT_EQ(gather(testing_support::groups::kShard, 8, 1, 4), 300);
  EXPECT_EQ(gather(testing_support::groups::kReplica, 8, 1, 4), 4 * 2'000);
  // Nobody beside: a tensor parallel group over both nodes.
  EXPECT_EQ(gather(testing_support::groups::kTensor, 1, 8, 1), 3'500);
}

TEST(CostModel, NeighbouringStagesTalkWithAllTheirRanks) {
  ClassBuilder first, second;
  first.send(1, 10 * kMega);
  second.receive(0, 10 * kMega);
  EXPECT_EQ(alone_us(make_job({first, second}, 2, 2), small_machine(2)), 4'000);
}

TEST(CostModel, StagesTalkOverPeerLinksInsideANodeAndOverNicsBetweenNodes) {
  Cluster cluster = small_machine(2);
  cluster.node.latency.p2p_intra = {1e-6};
  cluster.node.latency.p2p_inter = {2e-6};
  ClassBuilder first, second;
  first.send(1, 10 * kMega);
  second.receive(0, 10 * kMega);
  EXPECT_EQ(alone_us(make_job({first, second}, 1), cluster), 101);
  // Stage 0 fills node 0, stage 1 node 1; two ranks share a NIC of 5 GB/s.
  Job wide = make_job({first, second}, 4);
  EXPECT_EQ(alone_us(wide, cluster), 4'002);
  wide.mesh = testing_support::mesh_of({.dp = 4, .pp = 2, .pipeline_first = true});
  EXPECT_EQ(alone_us(wide, cluster), 101) << "both stages of a replica share a node";
}

TEST(CostModel, BothEndsOfATransferCarryTheSameCost) {
  ClassBuilder first, second;
  first.send(1, 10 * kMega);
  second.receive(0, 10 * kMega);
  const Job job = make_job({first, second}, 4);
  const Cluster cluster = small_machine(2);
  const CostModel model(job, cluster);
  EXPECT_EQ(model.costs(0)[0].alone, model.costs(1)[0].alone);
  EXPECT_EQ(model.costs(0)[0].method, "network");
}

TEST(CostModel, OfNodesWithAsManyRanksTheFirstHasTheRepresentative) {
  ClassBuilder program;
  program.stream(Lane::kCompute, 4);
  const Job job = make_job(program, 8);
  const Cluster cluster = small_machine(2);
  EXPECT_EQ(CostModel(job, cluster).place(0).node, 0);
}

TEST(CostModel, TheRepresentativeSitsWhereMostRanksOfItsClassAre) {
  ClassBuilder program;
  program.stream(Lane::kCompute, 4);
  const Job job = make_job({program, program}, 3);  // stage 1 on ranks 3, 4, 5
  const Cluster cluster = small_machine(2);
  const CostModel model(job, cluster);
  EXPECT_EQ(model.place(0).node, 0);
  EXPECT_EQ(model.place(0).ranks, 4);
  EXPECT_EQ(model.place(1).node, 1);
  EXPECT_EQ(model.place(1).rank, 4);
  EXPECT_EQ(model.place(1).members, 2);
  Job tensor = make_job({program, program}, 1, 3);
  EXPECT_EQ(CostModel(tensor, cluster).place(1).rank, 4);
}

// [Rajbhandari21 Fig.2b] one GPU of a DGX-2 reads 12 GB/s of host memory, sixteen together 3 GB/s
// each. The profile states those rates; the layout must bring them out.
TEST(CostModel, SixteenGpusOfADgx2ReadHostMemoryAtAQuarterOfTheRateOfOne) {
  const Cluster cluster = load_cluster("dgx2");
  ClassBuilder program;
  program.copy(Tier::kCpu, Tier::kGpu, 1'200 * kMega);
  const auto rate = [&](int dp) {
    const Job job = make_job(program, dp);
    const OpCost cost = only_cost(job, cluster);
    return 1.2 / to_seconds(cost.alone - cost.fixed).value;  // GB/s
  };
  EXPECT_NEAR(rate(1), 12.0, 0.01);
  EXPECT_NEAR(rate(16), 3.0, 0.01);
}

}  // namespace
}  // namespace zplan
