#include "sim/simulate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "planner/core/error.h"
#include "planner/program/timeline/fold.h"
#include "tests/support/measured_cores.h"
#include "tests/support/meshes.h"
#include "tests/unit/cost/small_machine.h"
#include "tests/unit/sim/job_builder.h"

namespace zplan::sim {
namespace {

using ::testing::HasSubstr;

constexpr std::int64_t kMicro = 1'000'000;  // ps, and bytes of a kernel that takes as long
constexpr std::int64_t kMega = 1'000'000;

// From here on the edges of the same iteration: level 0 is the step.
Edge after(NodeIndex node, std::int32_t level = 0, std::int32_t delta = 0) {
  return {.node = node, .level = level, .delta = delta};
}
Edge reuse_after(NodeIndex node, std::int32_t level, std::int32_t delta) {
  Edge edge = after(node, level, delta);
  edge.reuse = true;
  return edge;
}

SimResult run(const Job& job, const Cluster& cluster = small_machine()) {
  SimOptions options;
  options.record_timeline = true;
  return simulate(job, cluster, options);
}

// The spans of one lane in order.
std::vector<Span> lane_spans(const SimResult& result, Lane lane, std::size_t stage = 0) {
  std::vector<Span> spans;
  for (const Span& span : result.timeline.ranks[stage].spans) {
    if (span.lane == lane) spans.push_back(span);
  }
  return spans;
}

const LaneReport& lane_report(const SimResult& result, Lane lane, int stage = 0) {
  for (const LaneReport& report : result.lanes) {
    if (report.lane == lane && report.stage == stage) return report;
  }
  throw std::out_of_range("no such lane");
}

double part_us(const SimResult& result, TimePart part) {
  return result.split.parts[static_cast<std::size_t>(part)].value * 1e6;
}

double share_of(const SimResult& result, const std::string& resource) {
  for (const Limit& limit : result.limits) {
    if (limit.resource == resource) return limit.share;
  }
  return -1;
}

TEST(Simulate, ALoneMatrixProductTakesItsFlopAtTheAchievedRate) {
  ClassBuilder program;
  program.matmul(1000, 1000, 1000);  // 2e9 flop at 0.5 TFLOP/s
  const SimResult result = run(make_job(program));
  EXPECT_DOUBLE_EQ(result.first_step.value, 4e-3);
  EXPECT_DOUBLE_EQ(result.period.value, 4e-3);
  EXPECT_TRUE(result.steady);
  EXPECT_EQ(result.steps, 3);
  EXPECT_EQ(result.limited_by, "compute");
  EXPECT_DOUBLE_EQ(result.limits.front().share, 1);
}

TEST(Simulate, OpsOfOneLaneFollowEachOtherAndLanesOverlap) {
  ClassBuilder program;
  program.stream(Lane::kCompute, 3 * kMicro);
  program.stream(Lane::kCompute, 2 * kMicro);
  program.stream(Lane::kCommReduce, 4 * kMicro);
  const SimResult result = run(make_job(program));
  const auto compute = lane_spans(result, Lane::kCompute);
  EXPECT_EQ(compute[0].end.value, 3 * kMicro);
  EXPECT_EQ(compute[1].start.value, 3 * kMicro);
  EXPECT_EQ(lane_spans(result, Lane::kCommReduce)[0].end.value, 4 * kMicro);
  EXPECT_DOUBLE_EQ(result.period.value, 5e-6);
  EXPECT_DOUBLE_EQ(lane_report(result, Lane::kCommReduce).busy_share, 0.8);
  EXPECT_EQ(lane_report(result, Lane::kCommReduce).exposed.value, 0);
}

TEST(Simulate, AnEdgeDelaysAnOpUntilItsPredecessorHasCompleted) {
  ClassBuilder program;
  const NodeIndex first = program.stream(Lane::kCompute, 3 * kMicro);
  program.stream(Lane::kCommReduce, 4 * kMicro, {after(first)});
  const SimResult result = run(make_job(program));
  const auto spans = lane_spans(result, Lane::kCommReduce);
  EXPECT_EQ(spans[0].ready.value, 3 * kMicro);
  EXPECT_EQ(spans[0].start.value, 3 * kMicro);
  EXPECT_EQ(spans[0].end.value, 7 * kMicro);
  EXPECT_DOUBLE_EQ(result.first_step.value, 7e-6);
  EXPECT_DOUBLE_EQ(result.period.value, 4e-6) << "steps overlap without a carry edge";
}

TEST(Simulate, ACarryEdgeTiesAStepToTheOneBefore) {
  ClassBuilder program;
  const NodeIndex first = program.stream(Lane::kCompute, 3 * kMicro);
  const NodeIndex second = program.stream(Lane::kCommReduce, 4 * kMicro, {after(first)});
  program.add_edge(first, after(second, 0, 1));
  const SimResult result = run(make_job(program));
  EXPECT_DOUBLE_EQ(result.period.value, 7e-6);
  EXPECT_NEAR(lane_report(result, Lane::kCommReduce).exposed.value, 4e-6, 1e-15);
}

// A ring of two buffers: the copy of iteration i may start once the kernel of i - 2 is through.
TEST(Simulate, ARingOfTwoPrefetchesOneIterationAhead) {
  ClassBuilder program;
  program.repeat(4, [&] {
    const NodeIndex copy = program.copy(Tier::kCpu, Tier::kGpu, 100'000);  // 10 us
    const NodeIndex kernel = program.stream(Lane::kCompute, 30 * kMicro, {after(copy, 1)});
    program.add_edge(copy, reuse_after(kernel, 1, 2));
  });
  const SimResult result = run(make_job(program));
  const auto copies = lane_spans(result, Lane::kH2d);
  EXPECT_EQ(copies[1].start.value, 10 * kMicro);
  EXPECT_EQ(copies[2].start.value, 40 * kMicro) << "when the first kernel has ended";
  EXPECT_EQ(copies[3].start.value, 70 * kMicro);
  EXPECT_NEAR(result.period.value, 120e-6, 1e-12) << "copies hide under kernels";
  // In the steady state the first two copies of a step run during the step before, from 80 to 100
  // us; the other two wait until the kernels end at 160 and 190 us.
  EXPECT_NEAR(lane_report(result, Lane::kH2d).reuse_wait.value, 80e-6, 1e-9);
}

TEST(Simulate, SiblingsOfANodeShareTheirLinks) {
  ClassBuilder program;
  program.copy(Tier::kCpu, Tier::kGpu, 100 * kMega);
  EXPECT_NEAR(run(make_job(program, 1)).period.value, 10e-3, 1e-9);
  const SimResult four = run(make_job(program, 4));
  EXPECT_NEAR(four.period.value, 20e-3, 1e-9);
  EXPECT_EQ(four.limited_by, "PCIe uplink (socket0>pcie0)");
  EXPECT_NEAR(four.limits.front().share, 1, 1e-9);
}

// [Rajbhandari21 Fig.2b] 12 GB/s for one GPU of a DGX-2, 3 GB/s each for sixteen. Both figures are
// inputs of the profile, so only the fixed latency of a copy (10 us of 100 ms) is allowed for.
TEST(Simulate, SixteenGpusOfADgx2ReadHostMemoryAtAQuarterOfTheRateOfOne) {
  const Cluster cluster = load_cluster("dgx2");
  ClassBuilder program;
  program.copy(Tier::kCpu, Tier::kGpu, 1'200 * kMega);
  EXPECT_NEAR(1.2 / run(make_job(program, 1), cluster).period.value, 12.0, 0.01);
  EXPECT_NEAR(1.2 / run(make_job(program, 16), cluster).period.value, 3.0, 0.01);
}

TEST(Simulate, FlowsOfTwoLanesShareTheHostMemory) {
  ClassBuilder program;
  Cluster cluster = small_machine();
  cluster.node.host.memory_bandwidth = {10e9};
  program.copy(Tier::kCpu, Tier::kGpu, 100 * kMega);
  program.copy(Tier::kGpu, Tier::kCpu, 100 * kMega);
  const SimResult result = run(make_job(program), cluster);
  EXPECT_NEAR(result.first_step.value, 20e-3, 1e-9);
  EXPECT_EQ(result.limited_by, "host memory (dram)");
  ASSERT_FALSE(result.links.empty());
  for (const LinkReport& link : result.links)
    EXPECT_NEAR(link.busy_share, 1, 1e-6) << link.name << " in one step";
}

TEST(Simulate, ComputeWaitsForStagedCopies) {
  Cluster cluster = small_machine();
  ClassBuilder program;
  const NodeIndex compute = program.stream(Lane::kCompute, 10'000 * kMicro);
  // Of 5 ms at 10 GB/s; the next one not before this step's kernel.
  program.copy(Tier::kGpu, Tier::kCpu, 50 * kMega, {after(compute, 0, 1)});
  Job job = make_job(program);
  job.classes[0].program.nodes[1].role = {Phase::kBackward, Part::kLayer, Action::kDownload};
  EXPECT_NEAR(run(job, cluster).first_step.value, 10e-3, 1e-9);
  cluster.stack.staged_copies = 2;
  EXPECT_NEAR(run(job, cluster).first_step.value, 20e-3, 2e-6);
}

TEST(Simulate, ACollectiveOverStagesStartsWithItsLastMemberAndEndsAtOnce) {
  ClassBuilder early, late;
  const NodeIndex a = early.stream(Lane::kCompute, 2 * kMicro);
  early.collective(CollectiveKind::kAllReduce, testing_support::groups::kWorld, 100 * kMega,
                   {after(a)});
  const NodeIndex b = late.stream(Lane::kCompute, 9 * kMicro);
  late.collective(CollectiveKind::kAllReduce, testing_support::groups::kWorld, 100 * kMega,
                  {after(b)});
  const SimResult result = run(make_job({early, late}));
  const Span first = lane_spans(result, Lane::kCommGather, 0)[0];
  const Span second = lane_spans(result, Lane::kCommGather, 1)[0];
  EXPECT_EQ(first.ready.value, 2 * kMicro);
  EXPECT_EQ(first.start.value, 9 * kMicro);
  EXPECT_EQ(second.ready.value, 9 * kMicro);
  EXPECT_EQ(second.start, first.start);
  EXPECT_EQ(second.end, first.end);
  EXPECT_EQ(first.end.value, 1'009 * kMicro) << "two ranks: 100 MB at 100 GB/s";
}

// The second stage has slept until its kernel ended, the first has not.
TEST(Simulate, ACollectiveBeginsWhenTheLastOfItsMembersIsAwake) {
  CoreProfile cores = measured_cores();
  const auto end = [&] {
    ClassBuilder awake, asleep;
    awake.collective(CollectiveKind::kAllGather, testing_support::groups::kWorld, 2000);
    const NodeIndex kernel = asleep.stream(Lane::kCompute, 1000);  // 1 us
    const NodeIndex gather = asleep.collective(
        CollectiveKind::kAllGather, testing_support::groups::kWorld, 2000, {after(kernel)});
    asleep.add_edge(kernel, after(gather, 0, 1));
    return run(make_job({awake, asleep}), machine_of_cores(cores)).first_step.value;
  };
  const double without = end();
  cores.wake = {5e-6};
  EXPECT_NEAR(end(), without + 5e-6, 1e-12);
}

TEST(Simulate, WhoeverIsReadyFirstWaitsForItsPeer) {
  ClassBuilder slow, quick;
  const NodeIndex sender = slow.stream(Lane::kCompute, 9 * kMicro);
  const NodeIndex sent = slow.send(1, 100'000, {after(sender)});  // 1 us
  slow.add_edge(sender, after(sent, 0, 1));
  const NodeIndex early = quick.stream(Lane::kCompute, 2 * kMicro);
  const NodeIndex received = quick.receive(0, 100'000, {after(early)});
  quick.add_edge(early, after(received, 0, 1));
  const SimResult result = run(make_job({slow, quick}));
  EXPECT_NEAR(result.period.value, 10e-6, 1e-15);
  EXPECT_EQ(lane_report(result, Lane::kSendForwardUp, 0).peer_wait.value, 0);
  EXPECT_NEAR(lane_report(result, Lane::kReceiveForwardUp, 1).peer_wait.value, 7e-6, 1e-15);
}

TEST(Simulate, TheCopiesOfATiedEmbeddingMeetAcrossTheOuterStages) {
  ClassBuilder outer, inner;
  const NodeIndex slow = outer.stream(Lane::kCompute, 5 * kMicro);
  outer.collective(CollectiveKind::kAllReduce, testing_support::groups::kEmbedding, 10 * kMega,
                   {after(slow)});
  inner.stream(Lane::kCompute, 1 * kMicro);
  const SimResult result = run(make_job({outer, inner, outer}));
  EXPECT_EQ(lane_spans(result, Lane::kCommGather, 0)[0].end.value, 105 * kMicro);
  EXPECT_EQ(lane_spans(result, Lane::kCommGather, 2)[0].end.value, 105 * kMicro);
}

// p stages and m micro-batches of t each: the step ends after (m + p - 1) t [Narayanan21 sec 2.2].
TEST(Simulate, APipelineFillsStageByStage) {
  constexpr int kStages = 4, kMicroBatches = 6;
  std::vector<ClassBuilder> stages(kStages);
  for (int s = 0; s < kStages; ++s) {
    ClassBuilder& stage = stages[static_cast<std::size_t>(s)];
    stage.repeat(kMicroBatches, [&] {
      std::vector<Edge> input;
      if (s > 0) input.push_back(after(stage.receive(s - 1, 0), 1));
      const NodeIndex kernel = stage.stream(Lane::kCompute, 10 * kMicro, input);
      if (s + 1 < kStages) stage.send(s + 1, 0, {after(kernel, 1)});
    });
    // All stages end the step together.
    const NodeIndex last =
        stage.collective(CollectiveKind::kAllReduce, testing_support::groups::kWorld, 0, {after(0)},
                         Lane::kCommReduce);
    for (NodeIndex n = 0; n < last; ++n) {
      if (n > 0) stage.add_edge(last, after(n));
      stage.add_edge(n, after(last, 0, 1));
    }
  }
  const SimResult result = run(make_job(stages));
  EXPECT_NEAR(result.period.value, (kMicroBatches + kStages - 1) * 10e-6, 1e-12);
  EXPECT_NEAR(share_of(result, "pipeline bubble"), 3.0 / 9.0, 1e-6);
  EXPECT_EQ(lane_spans(result, Lane::kCompute, 3)[0].start.value, 30 * kMicro);
}

TEST(Simulate, AReceiveMeetsThePeerItNames) {
  ClassBuilder slow, middle, quick;
  const NodeIndex kernel = slow.stream(Lane::kCompute, 9 * kMicro);
  slow.send(1, 100'000, {after(kernel)});  // 1 us
  middle.receive(0, 100'000);
  middle.receive(2, 100'000);
  quick.send(1, 100'000);
  const SimResult result = run(make_job({slow, middle, quick}));
  EXPECT_EQ(lane_spans(result, Lane::kReceiveForwardUp, 1)[0].start.value, 9 * kMicro);
  EXPECT_EQ(lane_spans(result, Lane::kSendForwardUp, 2)[0].ready.value, 0);
  EXPECT_EQ(lane_spans(result, Lane::kSendForwardUp, 2)[0].start.value, 10 * kMicro);
}

TEST(Simulate, ASendThatNobodyReceivesIsReportedWithTheLanesThatWait) {
  ClassBuilder first, second;
  first.send(1, 4096);
  second.stream(Lane::kCompute, 4096);
  try {
    run(make_job({first, second}));
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kBadInput);
    EXPECT_THAT(error.what(), HasSubstr("stage 0 send_forward_up at forward.batch.compute"));
    EXPECT_THAT(error.what(), HasSubstr("for its peers"));
  }
}

TEST(Simulate, AProgramOfShortOpsIsBoundByItsLaunches) {
  Cluster cluster = small_machine();
  cluster.node.device.launch_overhead = {5e-6};
  ClassBuilder program;
  program.repeat(100, [&] { program.stream(Lane::kCompute, 1 * kMicro); });
  const SimResult result = run(make_job(program), cluster);
  EXPECT_NEAR(result.period.value, 500e-6, 1e-12);
  EXPECT_EQ(result.limited_by, "launch");
  EXPECT_NEAR(lane_report(result, Lane::kCompute).launch_wait.value, 400e-6, 1e-12);
  const auto spans = lane_spans(result, Lane::kCompute);
  EXPECT_EQ(spans[0].start.value, 5 * kMicro);
  EXPECT_EQ(spans[1].start.value, 10 * kMicro);
}

TEST(Simulate, OpsOfGraphsCostTheHostLess) {
  Cluster cluster = small_machine();
  cluster.node.device.launch_overhead = {5e-6};
  cluster.node.device.graph_launch_overhead = {0.5e-6};
  ClassBuilder program;
  program.repeat(100, [&] { program.stream(Lane::kCompute, 1 * kMicro); });
  Job job = make_job(program);
  job.launch = LaunchMode::kGraph;
  const SimResult result = run(job, cluster);
  EXPECT_NEAR(result.period.value, 100e-6, 1e-12);
  EXPECT_EQ(result.limited_by, "compute");
}

TEST(Simulate, LaunchesHideUnderLongOps) {
  Cluster cluster = small_machine();
  cluster.node.device.launch_overhead = {5e-6};
  ClassBuilder program;
  program.repeat(100, [&] { program.stream(Lane::kCompute, 20 * kMicro); });
  const SimResult result = run(make_job(program), cluster);
  EXPECT_NEAR(result.period.value, 2000e-6, 1e-12);
  EXPECT_NEAR(result.first_step.value, 2005e-6, 1e-12) << "only the first launch shows";
}

// With one op outstanding per lane the host cannot reach the other lane's op in time.
TEST(Simulate, AFullLaunchQueueHoldsBackTheOtherLanes) {
  Cluster cluster = small_machine();
  cluster.node.device.launch_overhead = {1e-6};
  ClassBuilder program;
  program.repeat(3, [&] { program.stream(Lane::kCompute, 10 * kMicro); });
  program.stream(Lane::kCommReduce, 1 * kMicro);
  const Job job = make_job(program);
  EXPECT_EQ(lane_spans(run(job, cluster), Lane::kCommReduce)[0].start.value, 4 * kMicro);
  cluster.node.device.launch_queue_depth = 1;
  // Kernels at 1..11, 12..22, 23..33 us; the host goes on at 22 us.
  EXPECT_EQ(lane_spans(run(job, cluster), Lane::kCommReduce)[0].start.value, 24 * kMicro);
}

TEST(Simulate, CpuKernelsNeedNoLaunch) {
  Cluster cluster = small_machine();
  cluster.node.device.launch_overhead = {5e-6};
  ClassBuilder program;
  program.accumulate_on_cpu(1000);
  EXPECT_EQ(lane_spans(run(make_job(program), cluster), Lane::kCpu)[0].start.value, 0);
}

TEST(Simulate, FixedLatencyIsNamedWhereItLimits) {
  Cluster cluster = small_machine();
  cluster.node.device.copy_latency = {100e-6};
  ClassBuilder program;
  program.repeat(3, [&] { program.copy(Tier::kCpu, Tier::kGpu, 4096); });
  const SimResult result = run(make_job(program), cluster);
  EXPECT_EQ(result.limited_by, "latency of h2d");
  EXPECT_NEAR(lane_report(result, Lane::kH2d).latency.value, 300e-6, 1e-12);
}

TEST(Simulate, OnlyTransfersHaveALatency) {
  ClassBuilder program;
  program.stream(Lane::kCompute, 30 * kMicro);
  const SimResult result = run(make_job(program), small_machine());
  EXPECT_EQ(lane_report(result, Lane::kCompute).latency.value, 0);
}

// read 20, up 10, kernel 30, tensor ring 100, update 24, down 10, write 40: each waits for the
// last, and the next step for them all. The period is a sum; each part is what one op takes.
TEST(Simulate, TheSplitNamesWhatTheComputeLaneWaitsFor) {
  ClassBuilder program;
  NodeIndex last = program.copy(Tier::kNvme, Tier::kCpu, 40'000);
  last = program.copy(Tier::kCpu, Tier::kGpu, 100'000, {after(last)});
  last = program.stream(Lane::kCompute, 30 * kMicro, {after(last)});
  last = program.collective(CollectiveKind::kAllGather, testing_support::groups::kTensor,
                            20 * kMega, {after(last)}, Lane::kCommTensor);
  last = program.accumulate_on_cpu(80'000, {after(last)});  // 0.96 MB each of two ranks
  last = program.copy(Tier::kGpu, Tier::kCpu, 50'000, {after(last)});
  last = program.copy(Tier::kCpu, Tier::kNvme, 40'000, {after(last)});
  for (NodeIndex n = 0; n < last; ++n) program.add_edge(n, after(last, 0, 1));
  const SimResult result = run(make_job(program, 1, 2));
  EXPECT_NEAR(part_us(result, TimePart::kIoRead), 40, 1e-6) << "two ranks share the drives";
  EXPECT_NEAR(part_us(result, TimePart::kCopies), 20 + 10, 1e-6);
  EXPECT_NEAR(part_us(result, TimePart::kCompute), 30, 1e-6);
  EXPECT_NEAR(part_us(result, TimePart::kTensor), 100, 1e-6);
  EXPECT_NEAR(part_us(result, TimePart::kCpu), 24, 1e-6);
  EXPECT_NEAR(part_us(result, TimePart::kIoWrite), 40, 1e-6);
  EXPECT_NEAR(lane_report(result, Lane::kIoRead).exposed.value, 40e-6, 1e-12);
  EXPECT_NEAR(result.period.value, 264e-6, 1e-12);
}

// Beside the kernels runs a long reduction that nothing waits for: the copies are what is exposed.
TEST(Simulate, TheSplitIgnoresOpsThatNobodyWaitsFor) {
  ClassBuilder program;
  program.stream(Lane::kCommReduce, 25 * kMicro);
  const NodeIndex copy = program.copy(Tier::kCpu, Tier::kGpu, 100'000);  // 10 us
  const NodeIndex kernel = program.stream(Lane::kCompute, 20 * kMicro, {after(copy)});
  program.add_edge(copy, after(kernel, 0, 1));
  const SimResult result = run(make_job(program));
  EXPECT_NEAR(part_us(result, TimePart::kCopies), 10, 1e-6);
  EXPECT_NEAR(part_us(result, TimePart::kCompute), 20, 1e-6);
  EXPECT_NEAR(part_us(result, TimePart::kGatherReduce), 0, 1e-6);
}

TEST(Simulate, LaunchesAndWaitsForOtherStagesArePartsOfTheSplit) {
  Cluster cluster = small_machine();
  cluster.node.device.launch_overhead = {5e-6};
  ClassBuilder first, second;
  first.stream(Lane::kCompute, 1 * kMicro);
  first.send(1, 0, {after(0)});
  const NodeIndex input = second.receive(0, 0);
  second.stream(Lane::kCompute, 2 * kMicro, {after(input)});
  const SimResult result = run(make_job({first, second}), cluster);
  EXPECT_EQ(result.split.stage, 1);
  EXPECT_NEAR(part_us(result, TimePart::kCompute), 2, 1e-6);
  EXPECT_NEAR(part_us(result, TimePart::kLaunch) + part_us(result, TimePart::kWait), 8, 1e-6);
}

// A slow chain before the busiest lane hides that lane for some steps; the period must not.
TEST(Simulate, ThePeriodIsNeverBelowTheBusiestLane) {
  ClassBuilder program;
  program.stream(Lane::kCompute, 10 * kMicro);
  NodeIndex last = program.stream(Lane::kCommGather, 9 * kMicro);
  for (const Lane lane : {Lane::kCommReduce, Lane::kH2d, Lane::kD2h}) {
    last = program.stream(lane, 9 * kMicro, {after(last)});
  }
  const SimResult result = run(make_job(program));
  EXPECT_NEAR(result.first_step.value, 36e-6, 1e-12);
  EXPECT_NEAR(result.period.value, 10e-6, 1e-12);
  Seconds sum{};
  for (const Seconds part : result.split.parts) sum += part;
  EXPECT_NEAR(sum.value, 10e-6, 1e-12) << "parts add up to the period, not to the steps that ran";
}

// 60 of 80 MB over peer links of 100 GB/s in one node; over two nodes the 160 MB of four ranks that
// leave each, over ports of 10 GB/s.
TEST(Simulate, AnAllToAllTakesWhatItsPartsTakeOnTheirLinks) {
  const auto period = [](int dp, int tp, const Group& group) {
    ClassBuilder program;
    const NodeIndex last =
        program.collective(CollectiveKind::kAllToAll, group, 80 * kMega, {}, Lane::kCommTensor);
    program.add_edge(last, after(last, 0, 1));
    return sim::simulate(make_job(program, dp, tp), small_machine(2)).period.value;
  };
  EXPECT_NEAR(period(2, 4, testing_support::groups::kTensor), 600e-6, 1e-12);
  EXPECT_NEAR(period(8, 1, testing_support::groups::kData), 16e-3, 1e-12);
}

TEST(Simulate, TwoRunsGiveTheSameResult) {
  ClassBuilder program;
  program.repeat(5, [&] {
    const NodeIndex up = program.copy(Tier::kCpu, Tier::kGpu, 123'456);
    const NodeIndex kernel = program.stream(Lane::kCompute, 7 * kMicro, {after(up, 1)});
    program.copy(Tier::kGpu, Tier::kCpu, 654'320, {after(kernel, 1)});
    program.collective(CollectiveKind::kAllGather, testing_support::groups::kData, 1 * kMega);
  });
  const Job job = make_job(program, 4);
  const SimResult first = run(job), second = run(job);
  EXPECT_EQ(first.timeline, second.timeline);
  EXPECT_EQ(first.period, second.period);
  EXPECT_EQ(first.limited_by, second.limited_by);
}

TEST(Simulate, TheTimelineHoldsWholeStepsInOrder) {
  ClassBuilder program;
  program.repeat(3, [&] { program.stream(Lane::kCompute, 1 * kMicro); });
  program.stream(Lane::kCommReduce, 1 * kMicro);  // runs steps ahead
  SimOptions options;
  options.record_timeline = true;
  options.fingerprint = "f00d";
  const SimResult result = simulate(make_job(program), small_machine(), options);
  EXPECT_EQ(result.timeline.source, "sim");
  EXPECT_EQ(result.timeline.fingerprint, "f00d");
  ASSERT_EQ(result.timeline.ranks.size(), 1u);
  const std::vector<Span>& spans = result.timeline.ranks[0].spans;
  EXPECT_EQ(spans.size(), static_cast<std::size_t>(result.steps) * 4);
  for (std::size_t i = 1; i < spans.size(); ++i) EXPECT_LE(spans[i - 1].start, spans[i].start);
  EXPECT_TRUE(simulate(make_job(program), small_machine()).timeline.ranks.empty());
}

TEST(Simulate, RecordsAFoldedTimelineAsItWouldBeFolded) {
  ClassBuilder program;
  program.repeat(9, [&] {
    program.stream(Lane::kCompute, 1 * kMicro);
    program.stream(Lane::kCommReduce, 2 * kMicro);
  });
  const Job job = make_job(program);
  SimOptions options;
  options.record_timeline = true;
  options.fold_timeline = true;
  const Timeline folded = simulate(job, small_machine(), options).timeline;
  EXPECT_FALSE(folded.ranks[0].folded.empty());
  EXPECT_EQ(folded, fold(job, run(job).timeline));
}

// A begins at 7 us and holds the bytes of X until 37, D begins at 14 and gives its data at 15; X is
// launched at 21. From then on it waits for the bytes alone.
TEST(Simulate, WhatIsNeitherLaunchedNorHasItsDataWaitsForNoBytes) {
  Cluster cluster = small_machine();
  cluster.node.device.launch_overhead = {7e-6};
  ClassBuilder program;
  const NodeIndex a = program.stream(Lane::kCommReduce, 30 * kMicro);
  const NodeIndex d = program.stream(Lane::kCommGather, 1 * kMicro);
  program.stream(Lane::kCompute, 1 * kMicro, {reuse_after(a, 0, 0), after(d)});
  SimOptions once;
  once.min_steps = once.max_steps = 1;
  const SimResult result = simulate(make_job(program), cluster, once);
  const LaneReport& compute = lane_report(result, Lane::kCompute);
  EXPECT_NEAR(compute.reuse_wait.value, 16e-6, 1e-12);
  EXPECT_NEAR(compute.launch_wait.value, 0, 1e-12);
  EXPECT_NEAR(lane_report(result, Lane::kCommGather).launch_wait.value, 14e-6, 1e-12);
}

// Slowed by 0.5 by the sum that begins 2 us after it and ends 2 us before it: of 20 us 2 pass as
// ever, then 8 take 12, and the rest as ever.
TEST(Simulate, AKernelIsSlowedAsLongAsWhatSlowsItRuns) {
  Cluster cluster = small_machine();
  cluster.stack.overlap_slowdown = 0.5;
  ClassBuilder program;
  const NodeIndex kernel = program.stream(Lane::kCompute, 20 * kMicro);
  const NodeIndex before =
      program.stream(Lane::kCommGather, 2 * kMicro, {after(kernel, 0, 1)});  // of the step before
  program.collective(CollectiveKind::kAllReduce, testing_support::groups::kData, 1'200'000,
                     {after(before)}, Lane::kCommReduce);  // 12 us at 100 GB/s
  program.stream(Lane::kCommTensor, 4 * kMicro, {after(before)});
  const SimResult result = run(make_job(program, 2), cluster);
  EXPECT_EQ(lane_spans(result, Lane::kCommReduce)[0].end.value, 14 * kMicro);
  EXPECT_EQ(lane_spans(result, Lane::kCompute)[0].end.value, 24 * kMicro);
  EXPECT_EQ(lane_spans(result, Lane::kCommTensor)[0].end.value, 6 * kMicro)
      << "kernels of other lanes are not slowed";
}

// A gather of 40 us and a copy of 40, each of which slows by half: 10 us of kernel take 20.
TEST(Simulate, WhatSlowsAKernelAtATimeAddsUp) {
  Cluster cluster = small_machine();
  cluster.stack.overlap_slowdown = cluster.stack.copy_slowdown = 0.5;
  ClassBuilder program;
  program.collective(CollectiveKind::kAllReduce, testing_support::groups::kData, 4 * kMega, {},
                     Lane::kCommReduce);
  program.copy(Tier::kCpu, Tier::kGpu, 200'000);  // two ranks of one switch
  const NodeIndex before = program.stream(Lane::kCommGather, 2 * kMicro);
  program.stream(Lane::kCompute, 10 * kMicro, {after(before)});
  const SimResult result = run(make_job(program, 2), cluster);
  EXPECT_EQ(lane_spans(result, Lane::kCompute)[0].end.value, 22 * kMicro);
  EXPECT_NEAR(lane_spans(result, Lane::kH2d)[0].end.value, 40 * kMicro, 1);
}

// The first of two waits for one kernel, the second for two.
TEST(Simulate, WhoeverWaitsForLessGoesOnFirst) {
  ClassBuilder program;
  const NodeIndex first = program.stream(Lane::kCompute, 10 * kMicro);
  const NodeIndex second = program.stream(Lane::kCompute, 10 * kMicro);
  program.stream(Lane::kCommGather, 1 * kMicro, {after(first)});
  program.stream(Lane::kCommReduce, 1 * kMicro, {after(second)});
  const SimResult result = run(make_job(program));
  EXPECT_EQ(lane_spans(result, Lane::kCommGather)[0].start.value, 10 * kMicro);
  EXPECT_EQ(lane_spans(result, Lane::kCommReduce)[0].start.value, 20 * kMicro);
}

TEST(Simulate, AsManyStepsAreSimulatedAsAreAskedFor) {
  ClassBuilder program;
  program.stream(Lane::kCompute, 10 * kMicro);
  SimOptions options;
  options.min_steps = 5;
  EXPECT_EQ(simulate(make_job(program), small_machine(), options).steps, 5);
}

// 10^6 kernels of 10^15 bytes, 1,000 s each.
// Step k of the compute lane ends at 10 k us, of the chain beside it at 27 + 9 k: from step 28 on
// steps take 10 us and not 9.
Job catching_up() {
  ClassBuilder program;
  program.stream(Lane::kCompute, 10 * kMicro);
  NodeIndex last = program.stream(Lane::kCommGather, 9 * kMicro);
  for (const Lane lane : {Lane::kCommReduce, Lane::kH2d, Lane::kD2h})
    last = program.stream(lane, 9 * kMicro, {after(last)});
  return make_job(program);
}

TEST(Simulate, StepsThatAgreeWithinTheToleranceEndTheSimulation) {
  SimOptions options;
  options.min_steps = 28;
  options.max_steps = 40;
  EXPECT_EQ(simulate(catching_up(), small_machine(), options).steps, 29);
  options.tolerance = 0.2;
  EXPECT_EQ(simulate(catching_up(), small_machine(), options).steps, 28);
}

// The 13 of 28 steps from 162 us to 280.
TEST(Simulate, OfStepsThatDoNotAgreeTheLastHalfIsSplit) {
  SimOptions options;
  options.min_steps = options.max_steps = 28;
  options.skip_repetitions = false;
  const SimResult result = simulate(catching_up(), small_machine(), options);
  EXPECT_FALSE(result.steady);
  EXPECT_EQ(result.split.steps, 13);
  EXPECT_NEAR(part_us(result, TimePart::kCompute), 118.0 / 13, 1e-6) << "busy all the time";
}

// d log(period) / d log(constant)
double reliance(const SimResult& result, Constant constant) { return result.reliances[constant]; }

// Of a kernel of 20 us 10 pass beside a sum that slows it by half: 6.67 us of it are done then, and
// it takes 23.33, of which 3.33 are due to the slowdown.
TEST(Simulate, TimeThatAKernelIsSlowedRestsOnWhatSlowsIt) {
  Cluster cluster = small_machine();
  cluster.stack.overlap_slowdown = 0.5;
  cluster.stack.copy_slowdown = 0.5;
  ClassBuilder program;
  const NodeIndex kernel = program.stream(Lane::kCompute, 20 * kMicro);
  program.collective(CollectiveKind::kAllReduce, testing_support::groups::kData, kMega,
                     {after(kernel, 0, 1)}, Lane::kCommReduce);
  SimOptions options;
  options.find_reliances = true;
  const SimResult result = simulate(make_job(program, 2), cluster, options);
  EXPECT_NEAR(result.period.value, 70e-6 / 3, 1e-11);
  EXPECT_NEAR(reliance(result, constant_of(&StackRates::overlap_slowdown)), 1.0 / 7, 1e-6);
  EXPECT_NEAR(reliance(result, constant_of(&StackRates::copy_slowdown)), 0, 1e-6);
  EXPECT_NEAR(reliance(result, constant_of(HardwareTime::kMemory)), 1, 1e-6);
}

// 5 us to launch a kernel of 1: where the host runs ahead it alone counts, and where it waits for
// each kernel both do.
TEST(Simulate, TimeThatTheHostTakesRestsOnItsLaunches) {
  Cluster cluster = small_machine();
  cluster.node.device.launch_overhead = {5e-6};
  ClassBuilder program;
  program.repeat(3, [&] { program.stream(Lane::kCompute, 1 * kMicro); });
  const Job job = make_job(program);
  SimOptions options;
  options.find_reliances = true;
  const SimResult ahead = simulate(job, cluster, options);
  EXPECT_NEAR(ahead.period.value, 15e-6, 1e-11);
  EXPECT_NEAR(reliance(ahead, constant_of(HardwareTime::kLaunch)), 1, 1e-6);
  cluster.node.device.launch_queue_depth = 1;
  const SimResult waiting = simulate(job, cluster, options);
  EXPECT_NEAR(waiting.period.value, 18e-6, 1e-11);
  EXPECT_NEAR(reliance(waiting, constant_of(HardwareTime::kLaunch)), 5.0 / 6, 1e-6);
  EXPECT_NEAR(reliance(waiting, constant_of(HardwareTime::kMemory)), 1.0 / 6, 1e-6);
}

// One operation outstanding per lane: the kernel behind three reductions of 10 us is not reached
// before the second of them has ended, so the host waits for reductions. Of the 33 us of a step it
// holds the kernel up for the launch of each reduction, and once more for that of the kernel, which
// computes for 1 us.
TEST(Simulate, WhatTheHostHasNotReachedWaitsForWhatTheHostWaitsFor) {
  Cluster cluster = small_machine();
  cluster.node.device.launch_overhead = {1e-6};
  cluster.node.device.launch_queue_depth = 1;
  ClassBuilder program;
  program.repeat(3, [&] { program.stream(Lane::kCommReduce, 10 * kMicro); });
  program.stream(Lane::kCompute, 1 * kMicro);
  const SimResult result = run(make_job(program), cluster);
  EXPECT_NEAR(part_us(result, TimePart::kWait), 0, 1e-6);
  EXPECT_NEAR(result.period.value * 1e6, 33, 1e-6);
  EXPECT_NEAR(part_us(result, TimePart::kLaunch), 4, 1e-6);
  EXPECT_NEAR(part_us(result, TimePart::kGatherReduce), 33 - 4 - 1, 1e-6);
}

TEST(Simulate, AStepThatIsLongerThanTheClockIsBadInput) {
  ClassBuilder program;
  program.repeat(1'000'000, [&] { program.stream(Lane::kCompute, 1'000'000'000'000'000); });
  try {
    simulate(make_job(program), small_machine());
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kBadInput);
    EXPECT_THAT(error.what(), HasSubstr("more than the simulator can count"));
  }
}

// Stage 1 has rank 3 in the first node and ranks 4 and 5 in the second.
TEST(Simulate, ATimelineIsOfTheRankThatStandsForItsStage) {
  ClassBuilder program;
  program.stream(Lane::kCompute, 4);
  const SimResult result = run(make_job({program, program}, 3), small_machine(2));
  EXPECT_EQ(result.timeline.ranks[0].rank, 0);
  EXPECT_EQ(result.timeline.ranks[1].rank, 4);
}

TEST(Simulate, BatchesAreWorkOfTheHost) {
  ClassBuilder program;
  const NodeIndex input = program.accumulate_on_cpu(80'000);  // 12 us
  const NodeIndex kernel = program.stream(Lane::kCompute, 30 * kMicro, {after(input)});
  program.add_edge(input, after(kernel, 0, 1));
  Job job = make_job(program);
  job.classes[0].program.nodes[input].lane = Lane::kInput;
  const SimResult result = run(job);
  EXPECT_NEAR(part_us(result, TimePart::kCpu), 12, 1e-6);
  EXPECT_NEAR(part_us(result, TimePart::kCompute), 30, 1e-6);
}

TEST(Simulate, AJobOfOneStageHasNoPipelineBubble) {
  ClassBuilder program;
  const NodeIndex copy = program.copy(Tier::kCpu, Tier::kGpu, 100'000);
  program.stream(Lane::kCompute, 30 * kMicro, {after(copy)});
  EXPECT_EQ(share_of(run(make_job(program)), "pipeline bubble"), -1);
}

TEST(Simulate, AnEmptyJobTakesNoTime) {
  const SimResult result = run(make_job(ClassBuilder()));
  EXPECT_EQ(result.period.value, 0);
}

}  // namespace
}  // namespace zplan::sim
