#include "planner/cost/chain.h"

#include <gtest/gtest.h>
//
#include <rapidcheck/gtest.h>

#include <functional>

#include "planner/cost/cost_model.h"
#include "sim/simulate.h"
#include "tests/unit/cost/small_machine.h"
#include "tests/unit/sim/job_builder.h"
#include "tests/unit/sim/random_job.h"

namespace zplan {
namespace {

using Times = std::vector<std::optional<Seconds>>;

constexpr Lane kTogether = Lane::kCommTensor;

// Within an iteration of the loop at depth 1, or from the one before.
Edge here(NodeIndex node) { return {.node = node, .level = 1}; }
Edge before(NodeIndex node) { return {.node = node, .level = 1, .delta = 1}; }

// A kernel of a lane and its seconds.
struct Built {
  ClassBuilder program;
  Times times;
  NodeIndex op(Lane lane, std::optional<double> seconds, std::vector<Edge> after = {}) {
    times.push_back(seconds ? std::optional(Seconds{*seconds}) : std::nullopt);
    return program.stream(lane, 4, std::move(after));
  }
};

// Seconds of the loop at depth 1, and of the whole step.
struct Seen {
  double kernels, body, between, step;
};
Seen seen(Built& built) {
  constexpr BlockIndex kLoop = 1;
  const Program program = built.program.finish();
  const Chain chain(program, built.times);
  return {chain.kernels(kLoop).value, chain.body(kLoop).value, chain.between(kLoop).value,
          chain.body(0).value};
}

TEST(Chain, AKernelWaitsForWhatTheKernelsBetweenDoNotFill) {
  Built built;
  built.program.repeat(4, [&] {
    const NodeIndex first = built.op(Lane::kCompute, 10);
    const NodeIndex sum = built.op(kTogether, 8, {here(first)});
    built.op(Lane::kCompute, 5);
    built.op(Lane::kCompute, 1, {here(sum)});
  });
  const Seen loop = seen(built);
  EXPECT_EQ(loop.kernels, 16);
  EXPECT_EQ(loop.body, 19);
  EXPECT_EQ(loop.between, 0);
  EXPECT_EQ(loop.step, 4 * 19);
}

TEST(Chain, CollectivesOfOneLaneFollowEachOther) {
  Built built;
  built.program.repeat(4, [&] {
    const NodeIndex first = built.op(Lane::kCompute, 1);
    built.op(kTogether, 8, {here(first)});
    const NodeIndex second = built.op(kTogether, 8);
    built.op(Lane::kCompute, 1, {here(second)});
  });
  EXPECT_EQ(seen(built).body, 18);
}

TEST(Chain, WhatNoKernelOfTheIterationGaveMayHaveBegunBefore) {
  Built built;
  built.program.repeat(4, [&] {
    const NodeIndex gather = built.op(kTogether, 8);
    built.op(Lane::kCompute, 1, {here(gather)});
  });
  EXPECT_EQ(seen(built).body, 1);
}

TEST(Chain, NodesWithoutATimeDoNotCount) {
  Built built;
  built.program.repeat(4, [&] {
    const NodeIndex first = built.op(Lane::kCompute, 10);
    const NodeIndex sum = built.op(kTogether, std::nullopt, {here(first)});
    built.op(Lane::kCompute, 1, {here(sum)});
  });
  EXPECT_EQ(seen(built).body, 11);
}

TEST(Chain, AnIterationWaitsForTheOneBeforeIt) {
  Built built;
  built.program.repeat(4, [&] {
    const NodeIndex first = built.op(Lane::kCompute, 10);
    built.op(kTogether, 7, {here(first)});
  });
  built.program.add_edge(0, before(1));
  const Seen loop = seen(built);
  EXPECT_EQ(loop.body, 10);
  EXPECT_EQ(loop.between, 7);
}

// A kernel that recomputes fills a part of the wait of the kernel that follows it.
TEST(Chain, KernelsBeforeTheOneThatWaitsFillItsWait) {
  Built built;
  built.program.repeat(4, [&] {
    built.op(Lane::kCompute, 3);
    const NodeIndex last = built.op(Lane::kCompute, 2);
    built.op(kTogether, 7, {here(last)});
  });
  built.program.add_edge(1, before(2));
  const Seen loop = seen(built);
  EXPECT_EQ(loop.body, 5);
  EXPECT_EQ(loop.between, 4);
}

// A wait that begins before that kernel and ends behind it is in no period: what a body counts of
// it is taken off.
TEST(Chain, WaitsAcrossTheKernelThatWaitsCountOnce) {
  Built built;
  built.program.repeat(4, [&] {
    const NodeIndex first = built.op(Lane::kCompute, 1);
    const NodeIndex sum = built.op(kTogether, 8, {here(first)});
    built.op(Lane::kCompute, 1);
    const NodeIndex last = built.op(Lane::kCompute, 1, {here(sum)});
    built.op(kTogether, 20, {here(last)});
  });
  built.program.add_edge(2, before(4));
  const Seen loop = seen(built);
  EXPECT_EQ(loop.body, 10);
  EXPECT_EQ(loop.between, 22 - 10 - (10 - 3));
}

TEST(Chain, ABlockWithinCountsAsItsIterations) {
  Built built;
  built.program.repeat(2, [&] {
    const NodeIndex first = built.op(Lane::kCompute, 1);
    const NodeIndex sum = built.op(kTogether, 20, {here(first)});
    built.program.repeat(
        3, [&] { built.op(Lane::kCompute, 5); }, Var::kLayer);
    built.op(Lane::kCompute, 1, {here(sum)});
  });
  const Seen loop = seen(built);
  EXPECT_EQ(loop.kernels, 17);
  EXPECT_EQ(loop.body, 22);
}

// Of nodes that are on one of the two lanes, alone.
Times times_of(const Job& job, const CostModel& costs, std::size_t stage, Lane waits_for) {
  Times times;
  const Program& program = job.classes[stage].program;
  for (std::size_t i = 0; i < program.nodes.size(); ++i) {
    const bool is_counted =
        program.nodes[i].lane == Lane::kCompute || program.nodes[i].lane == waits_for;
    const SimTime alone = costs.costs(static_cast<int>(stage))[i].alone;
    times.push_back(is_counted ? std::optional(to_seconds(alone)) : std::nullopt);
  }
  return times;
}

// All iterations of all loops, each of which may wait for the one before it.
Seconds all_of(const Program& program, const Chain& chain, BlockIndex block) {
  const Block& loop = program.blocks[block];
  Seconds together = chain.body(block) * loop.count;
  if (block != 0) together += chain.between(block) * (loop.count - 1);
  return together;
}

RC_GTEST_PROP(ChainProperty, NoLoopTakesLessThanItsIterationsInARow, ()) {
  const Job job = RandomJob().make();
  const Cluster cluster = RandomJob::machine();
  const CostModel costs(job, cluster);
  const Seconds period = sim::simulate(job, cluster).period;
  const Lane lane = *rc::gen::element(Lane::kCommTensor, Lane::kCommGather, Lane::kCommReduce);
  constexpr double kRoundoff = 1e-9;
  for (std::size_t stage = 0; stage < job.classes.size(); ++stage) {
    const Program& program = job.classes[stage].program;
    const Times times = times_of(job, costs, stage, lane);
    const Chain chain(program, times);
    for (BlockIndex block = 0; block < program.blocks.size(); ++block)
      RC_ASSERT(all_of(program, chain, block) <= period * (1 + kRoundoff));
  }
}

}  // namespace
}  // namespace zplan
