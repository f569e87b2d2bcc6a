#include "sim/step_split.h"

#include <gtest/gtest.h>
//
#include <rapidcheck/gtest.h>

#include <numeric>

#include "tests/support/meshes.h"
#include "tests/unit/cost/small_machine.h"
#include "tests/unit/sim/job_builder.h"
#include "tests/unit/sim/random_job.h"

namespace zplan::sim {
namespace {

using testing_support::groups::kEmbedding;
using testing_support::groups::kShard;
using testing_support::groups::kTensor;
using testing_support::groups::kWorld;

constexpr std::int64_t kMicro = 1'000'000;  // ps, and bytes of a kernel that takes as long
constexpr std::int64_t kMega = 1'000'000;

Edge after(NodeIndex node, std::int32_t level = 0, std::int32_t delta = 0) {
  return {.node = node, .level = level, .delta = delta};
}

SimResult simulated(const Job& job, const Cluster& cluster, bool skip = true) {
  SimOptions options;
  options.split_by_op = true;
  options.skip_repetitions = skip;
  return simulate(job, cluster, options);
}

SimTime sum_of(const std::vector<HeldTime>& ops) {
  return std::accumulate(ops.begin(), ops.end(), SimTime{0},
                         [](SimTime sum, const HeldTime& op) { return sum + op.time; });
}

double us(const StepSplit& split, StepUse use) { return split.part(use).value * 1e6; }

// read 20, up 10, kernel 30, product 4000, tensor ring 100, update 24, down 10, write 40: each
// waits for the last.
TEST(StepSplit, NamesWhatTheComputeLaneDoesAndWaitsFor) {
  ClassBuilder program;
  NodeIndex last = program.copy(Tier::kNvme, Tier::kCpu, 40'000);
  last = program.copy(Tier::kCpu, Tier::kGpu, 100'000, {after(last)});
  last = program.stream(Lane::kCompute, 30 * kMicro, {after(last)});
  last = program.matmul(1000, 1000, 1000, {after(last)});
  last = program.collective(CollectiveKind::kAllGather, kTensor, 20 * kMega, {after(last)},
                            Lane::kCommTensor);
  last = program.accumulate_on_cpu(80'000, {after(last)});
  last = program.copy(Tier::kGpu, Tier::kCpu, 50'000, {after(last)});
  last = program.copy(Tier::kCpu, Tier::kNvme, 40'000, {after(last)});
  for (NodeIndex n = 0; n < last; ++n) program.add_edge(n, after(last, 0, 1));
  const Job job = make_job(program, 1, 2);
  const SimResult result = simulated(job, small_machine());
  const StepSplit split = step_split(job, result);
  EXPECT_NEAR(us(split, StepUse::kDrives), 20 + 20 + 40, 1e-6);  // as in simulate_test.cpp
  EXPECT_NEAR(us(split, StepUse::kCopies), 30, 1e-6);
  EXPECT_NEAR(us(split, StepUse::kMemory), 30, 1e-6);
  EXPECT_NEAR(us(split, StepUse::kProducts), 4000, 1e-6);
  EXPECT_NEAR(us(split, StepUse::kTensor), 100, 1e-6);
  EXPECT_NEAR(us(split, StepUse::kHost), 24, 1e-6);
  EXPECT_EQ(sum_of(result.split.ops), to_sim_time(result.period));
  EXPECT_EQ(split.unsettled.value, 0);
  EXPECT_EQ(split.ops.front().use, StepUse::kProducts);
  EXPECT_EQ(split.ops.front().runs, 1);
}

TEST(StepSplit, CommunicationCountsByTheRanksThatItJoins) {
  const Mesh mesh =
      testing_support::mesh_of({.dp = 4, .tp = 2, .pp = 2, .shards = 2, .pipeline_first = false});
  ClassBuilder program;
  const auto use = [&](const Group& group, Lane lane) {
    const NodeIndex node = program.collective(CollectiveKind::kAllReduce, group, 1024, {}, lane);
    const Job job = make_job(program, 4, 2);
    const Program& made = job.classes.front().program;
    return use_of(made, made.nodes[node], HeldBy::kOp, mesh);
  };
  EXPECT_EQ(use(kTensor, Lane::kCommTensor), StepUse::kTensor);
  EXPECT_EQ(use(kTensor, Lane::kCommReduce), StepUse::kTensor) << "gradients that they share";
  EXPECT_EQ(use(kShard, Lane::kCommTensor), StepUse::kExpert);
  EXPECT_EQ(use({kTensor.axes | kShard.axes}, Lane::kCommTensor), StepUse::kExpert)
      << "experts whole on each tensor parallel rank";
  EXPECT_EQ(use(kShard, Lane::kCommGather), StepUse::kData);
  EXPECT_EQ(use(kWorld, Lane::kCommReduce), StepUse::kData);
  EXPECT_EQ(use(kEmbedding, Lane::kCommReduce), StepUse::kPipeline);
}

TEST(StepSplit, ProductsOfScoresAreAttention) {
  ClassBuilder program;
  const NodeIndex product = program.matmul(8, 8, 8);
  Job job = make_job(program);
  Program& made = job.classes.front().program;
  const auto use = [&](Part part) {
    made.nodes[product].role.part = part;
    return use_of(made, made.nodes[product], HeldBy::kOp, job.mesh);
  };
  EXPECT_EQ(use(Part::kFc1), StepUse::kProducts);
  EXPECT_EQ(use(Part::kScores), StepUse::kAttention);
}

TEST(StepSplit, WhatCapsAndNormalisesScoresIsAttention) {
  ClassBuilder program;
  const NodeIndex kernel = program.stream(Lane::kCompute, 4);
  Job job = make_job(program);
  Program& made = job.classes.front().program;
  const auto use = [&](Part part) {
    made.nodes[kernel].role.part = part;
    return use_of(made, made.nodes[kernel], HeldBy::kOp, job.mesh);
  };
  EXPECT_EQ(use(Part::kMlpNorm), StepUse::kMemory);
  EXPECT_EQ(use(Part::kScoreCap), StepUse::kAttention);
  EXPECT_EQ(use(Part::kSoftmax), StepUse::kAttention);
}

// Two nodes, one of them in a loop of 3.
TEST(StepSplit, AllRunsOfARoleCount) {
  ClassBuilder program;
  const NodeIndex one = program.stream(Lane::kCompute, 1 * kMicro);
  NodeIndex other = 0;
  program.repeat(3, [&] { other = program.stream(Lane::kCompute, 2 * kMicro); });
  Job job = make_job(program);
  std::vector<Node>& nodes = job.classes.front().program.nodes;
  nodes[other].role = nodes[one].role;
  const StepSplit split = step_split(job, simulated(job, small_machine()));
  ASSERT_EQ(split.ops.size(), 1u);
  EXPECT_EQ(split.ops[0].runs, 4);
  EXPECT_EQ(split.ops[0].time.value, 7 * kMicro);
}

TEST(StepSplit, KernelsOfCommunicationAreNoComputeOfTheirOwn) {
  ClassBuilder program;
  const NodeIndex reduced = program.stream(Lane::kCommReduce, 3 * kMicro);
  program.stream(Lane::kCompute, 1 * kMicro, {after(reduced)});
  const Job job = make_job(program);
  const StepSplit split = step_split(job, simulated(job, small_machine()));
  // One of its three runs beside the compute of the step before.
  EXPECT_NEAR(us(split, StepUse::kData), 2, 1e-6);
  EXPECT_NEAR(us(split, StepUse::kMemory), 1, 1e-6);
}

TEST(StepSplit, OpsThatAreNotLaunchedOrLackTheirPeersAreNoWorkOfTheirOwn) {
  ClassBuilder first, second;
  first.stream(Lane::kCompute, 1 * kMicro);
  first.send(1, 0, {after(0)});
  const NodeIndex input = second.receive(0, 0);
  second.stream(Lane::kCompute, 2 * kMicro, {after(input)});
  Cluster cluster = small_machine();
  cluster.node.device.launch_overhead = {5e-6};
  const Job job = make_job({first, second});
  const StepSplit split = step_split(job, simulated(job, cluster));
  EXPECT_EQ(split.stage, 1);
  EXPECT_EQ(split.stages, 2);
  EXPECT_NEAR(us(split, StepUse::kMemory), 2, 1e-6);
  EXPECT_NEAR(us(split, StepUse::kLaunch) + us(split, StepUse::kWait), 8, 1e-6);
}

// A kernel of 10 us, then a sum over the ranks of 100 us; the host spends 5 us at the start of the
// next step, after the device has done all of this one.
TEST(StepSplit, AHostThatWaitsForAReductionWaitsForCommunication) {
  ClassBuilder program;
  const NodeIndex gradient = program.stream(Lane::kCompute, 10 * kMicro);
  program.collective(CollectiveKind::kAllGather, kWorld, 20 * kMega, {after(gradient)},
                     Lane::kCommReduce);
  Cluster cluster = small_machine();
  cluster.stack.host_step = 5e-6;
  const Job job = make_job(program, 1, 2);
  const SimResult result = simulated(job, cluster);
  const StepSplit split = step_split(job, result);
  EXPECT_NEAR(result.period.value * 1e6, 115, 1e-6);
  EXPECT_NEAR(us(split, StepUse::kMemory), 10, 1e-6);
  EXPECT_NEAR(us(split, StepUse::kData) + us(split, StepUse::kTensor), 100, 1e-6);
  EXPECT_NEAR(us(split, StepUse::kLaunch), 5, 1e-6);
  EXPECT_EQ(sum_of(result.split.ops), to_sim_time(result.period));
  ASSERT_FALSE(split.ops.empty());
  EXPECT_EQ(split.ops.front().by, HeldBy::kOp) << "no launch holds the longest part";
}

// At each of three layers the host waits for the compute stream and spends 2 us; products of 4 us
// hide behind neither, and copies of 10 us run beside the next layer.
TEST(StepSplit, AHostThatWaitsAtEachLayerDoesNotWaitForCopiesBesideCompute) {
  ClassBuilder program;
  NodeIndex first = 0;
  program.repeat(3, [&] {
    first = program.matmul(100, 100, 100);
    program.copy(Tier::kGpu, Tier::kCpu, 20'000, {after(first)});
  });
  Job job = make_job(program);
  job.classes.front().program.nodes[first].role.part = Part::kAttentionNorm;
  Cluster cluster = small_machine();
  cluster.stack.host_sync = 2e-6;
  const SimResult result = simulated(job, cluster);
  const StepSplit split = step_split(job, result);
  EXPECT_NEAR(us(split, StepUse::kProducts), 3 * 4, 1e-6);
  EXPECT_NEAR(us(split, StepUse::kLaunch), 3 * 2, 1e-6);
  EXPECT_NEAR(us(split, StepUse::kCopies), 0, 1e-6);
  EXPECT_NEAR(result.period.value * 1e6, 3 * (4 + 2), 1e-6);
}

void expect_whole(const Job& job, const SimResult& result) {
  ASSERT_EQ(sum_of(result.split.ops), result.split.time) << "to the picosecond";
  const StepSplit split = step_split(job, result);
  Seconds sum{};
  for (const Seconds part : split.parts) sum += part;
  ASSERT_NEAR(sum.value, result.period.value, 1e-9 * result.period.value);
  SimTime ops{0};
  for (const StepOp& op : split.ops) ops += op.time;
  ASSERT_EQ(ops, result.split.time);
  const auto coarse = [&](TimePart part) {
    return result.split.parts[static_cast<std::size_t>(part)].value;
  };
  ASSERT_NEAR(split.compute().value, coarse(TimePart::kCompute), 1e-9 * result.period.value);
  ASSERT_NEAR(split.part(StepUse::kLaunch).value, coarse(TimePart::kLaunch),
              1e-9 * result.period.value);
}

RC_GTEST_PROP(StepSplit, AddsUpToTheStep, ()) {
  RandomJob random;
  const Job job = random.make();
  expect_whole(job, simulated(job, RandomJob::machine()));
}

RC_GTEST_PROP(StepSplit, IsTheSameWhereIterationsAreSkipped, ()) {
  RandomJob random;
  const Job job = random.make_looping();
  const Cluster machine = RandomJob::machine();
  const SimResult skipped = simulated(job, machine), full = simulated(job, machine, false);
  expect_whole(job, skipped);
  RC_ASSERT(skipped.split.time == full.split.time);
  RC_ASSERT(skipped.split.ops.size() == full.split.ops.size());
  for (std::size_t i = 0; i < full.split.ops.size(); ++i)
    RC_ASSERT(skipped.split.ops[i].time == full.split.ops[i].time);
}

}  // namespace
}  // namespace zplan::sim
