#include "planner/cost/step_cycle.h"

#include <gtest/gtest.h>
//
#include <rapidcheck/gtest.h>

#include "planner/cost/cost_model.h"
#include "sim/simulate.h"
#include "tests/unit/sim/job_builder.h"
#include "tests/unit/sim/random_job.h"

namespace zplan {
namespace {

// Within an iteration of the block at a depth, or from the one before it.
Edge here(NodeIndex node, int depth = 0) { return {.node = node, .level = depth}; }
Edge before(NodeIndex node, int depth = 0) { return {.node = node, .level = depth, .delta = 1}; }

// Kernels of a lane and the picoseconds that each takes alone.
struct Built {
  ClassBuilder program;
  std::vector<OpCost> costs;
  NodeIndex op(Lane lane, std::int64_t time, std::vector<Edge> after = {}) {
    costs.push_back({.alone = SimTime{time}});
    return program.stream(lane, 4, std::move(after));
  }
  std::int64_t period() {
    const Program steps = program.finish();
    return StepCycle(steps, costs).period().value;
  }
};

TEST(StepCycle, AStepWaitsForWhatTheStepBeforeLeavesToDo) {
  Built built;
  const NodeIndex forward = built.op(Lane::kCompute, 10);
  const NodeIndex backward = built.op(Lane::kCompute, 20);
  const NodeIndex reduce = built.op(Lane::kCommReduce, 7, {here(backward)});
  const NodeIndex update = built.op(Lane::kCompute, 2, {here(reduce)});
  const NodeIndex gather = built.op(Lane::kCommGather, 5, {here(update)});
  built.program.add_edge(forward, before(gather));
  EXPECT_EQ(built.period(), 10 + 20 + 7 + 2 + 5);
}

TEST(StepCycle, WhatNothingWaitsForDoesNotCount) {
  Built built;
  const NodeIndex forward = built.op(Lane::kCompute, 10);
  built.op(Lane::kCommReduce, 7, {here(forward)});
  EXPECT_EQ(built.period(), 10);
}

// A stage of a pipeline: what comes before its first pass does not count, what its passes wait for
// does, and so does the slot that the next micro-batch waits for.
TEST(StepCycle, AStepGoesThroughItsPassesAndThenTurns) {
  for (const int micro_batches : {1, 3, 20}) {
    Built built;
    const auto kernel = [&](std::int64_t time, std::vector<Edge> after = {}) {
      built.costs.push_back({.alone = SimTime{time}});
      return built.program.matmul(4, 4, 4, std::move(after));
    };
    built.op(Lane::kCompute, 100);
    NodeIndex receive = 0, forward = 0, backward = 0;
    built.program.repeat(micro_batches, [&] {
      receive = built.op(Lane::kReceiveForwardUp, 5);
      forward = kernel(10, {here(receive, 1)});
      const NodeIndex sum = built.op(Lane::kCommTensor, 3, {here(forward, 1)});
      backward = kernel(20, {here(sum, 1)});
    });
    built.program.add_edge(receive, before(backward, 1));
    const NodeIndex update = kernel(7, {here(backward)});
    Program steps = built.program.finish();
    for (Node& node : steps.nodes) node.role.phase = Phase::kForward;
    steps.nodes[backward].role.phase = Phase::kBackward;
    steps.nodes[update].role.phase = Phase::kUpdate;
    const StepCycle cycle(steps, built.costs);
    // Of the last iteration of a loop that is not walked whole its messages are not known to wait.
    const std::int64_t all = micro_batches * (10 + 3 + 20) + (micro_batches - 1) * 5;
    EXPECT_LE(cycle.through().value, all) << micro_batches;
    EXPECT_GE(cycle.through().value, all - (micro_batches > 8 ? 2 * (3 + 5) : 0)) << micro_batches;
    EXPECT_EQ(cycle.turn().value, 7 + 100) << micro_batches;
  }
}

// The lane that works longest has a cycle of its own.
TEST(StepCycle, TheBusiestLaneCounts) {
  Built built;
  const NodeIndex forward = built.op(Lane::kCompute, 10);
  const NodeIndex reduce = built.op(Lane::kCommReduce, 30);
  const NodeIndex again = built.op(Lane::kCommGather, 4, {here(reduce)});
  built.program.add_edge(reduce, before(again));
  EXPECT_EQ(built.period(), 34);
  EXPECT_EQ(forward, 0U);
}

// The first and the last iteration are walked, those between go at the pace of one.
TEST(StepCycle, IterationsThatWaitForEachOtherGoAtTheirPace) {
  for (const int count : {2, 3, 4, 10}) {
    Built built;
    built.program.repeat(count, [&] {
      const NodeIndex gather = built.op(Lane::kCommGather, 5);
      built.op(Lane::kCompute, 3, {here(gather, 1)});
    });
    built.program.add_edge(0, before(1, 1));  // one buffer
    built.program.add_edge(0, before(1));     // of the step before
    const std::int64_t period = built.period();
    EXPECT_LE(period, 8 * count);
    // Of the last iteration walked it is not known that it follows the one before it in time.
    EXPECT_GE(period, 8 * count - (count > 3 ? 5 : 0)) << count;
  }
}

TEST(StepCycle, LoopsWithinLoopsMultiply) {
  Built built;
  built.program.repeat(5, [&] {
    built.program.repeat(
        6, [&] { built.op(Lane::kCompute, 2); }, Var::kLayer);
    built.op(Lane::kCompute, 1);
  });
  EXPECT_EQ(built.period(), 5 * (6 * 2 + 1));
}

RC_GTEST_PROP(StepCycleProperty, NoCycleIsLongerThanTheSimulatedPeriod, ()) {
  const Job job = RandomJob().make();
  const Cluster cluster = RandomJob::machine();
  const CostModel costs(job, cluster);
  const Seconds period = sim::simulate(job, cluster).period;
  for (std::size_t stage = 0; stage < job.classes.size(); ++stage) {
    const StepCycle cycle(job.classes[stage].program, costs.costs(static_cast<int>(stage)));
    RC_ASSERT(to_seconds(cycle.period()) * sim::kLeastOfSteady <= period);
    RC_ASSERT(to_seconds(cycle.turn()) * sim::kLeastOfSteady <= period);
    RC_ASSERT(to_seconds(cycle.through() + cycle.turn()) * sim::kLeastOfSteady <= period);
  }
}

}  // namespace
}  // namespace zplan
