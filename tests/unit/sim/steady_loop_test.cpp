// What is skipped must not show in any result.
#include "sim/steady_loop.h"

#include <gtest/gtest.h>
//
#include <rapidcheck/gtest.h>

#include <cmath>

#include "sim/simulate.h"
#include "tests/support/meshes.h"
#include "tests/unit/sim/random_job.h"

namespace zplan::sim {
namespace {

constexpr double kRoundoff = 1e-9;

bool close(double a, double b) { return std::abs(a - b) <= kRoundoff * std::max(a, b); }
bool close(Seconds a, Seconds b) { return close(a.value, b.value); }

struct Both {
  SimResult skipped, full;
};

Both simulate_both(const Job& job, const Cluster& cluster) {
  SimOptions full;
  full.skip_repetitions = false;
  return {simulate(job, cluster), simulate(job, cluster, full)};
}

// Program order: all but the last stage w forwards ahead, then one backward per forward. `more`:
// what backward takes longer, by stage.
Job uneven_pipeline(const std::vector<std::int64_t>& more, int micro_steps) {
  const auto stages = static_cast<int>(more.size());
  std::vector<ClassBuilder> out(more.size());
  constexpr std::int64_t kMicro = 1'000'000, kBytes = 100'000;
  for (int s = 0; s < stages; ++s) {
    ClassBuilder& stage = out[static_cast<std::size_t>(s)];
    const int ahead = stages - 1 - s;
    const auto forward = [&] {
      std::vector<Edge> input;
      if (s > 0) input.push_back({.node = stage.receive(s - 1, kBytes), .level = stage.depth()});
      const NodeIndex kernel = stage.stream(Lane::kCompute, 10 * kMicro, input);
      if (s + 1 < stages) stage.send(s + 1, kBytes, {{.node = kernel, .level = stage.depth()}});
    };
    const auto backward = [&] {
      std::vector<Edge> input;
      if (s + 1 < stages) {
        const NodeIndex in = stage.receive(s + 1, kBytes, {}, Lane::kReceiveBackwardDown);
        input.push_back({.node = in, .level = stage.depth()});
      }
      const NodeIndex kernel =
          stage.stream(Lane::kCompute, 20 * kMicro + more[static_cast<std::size_t>(s)], input);
      if (s > 0) {
        stage.send(s - 1, kBytes, {{.node = kernel, .level = stage.depth()}},
                   Lane::kSendBackwardDown);
      }
    };
    if (ahead > 0) stage.repeat(ahead, forward);
    stage.repeat(micro_steps - ahead, [&] {
      forward();
      backward();
    });
    if (ahead > 0) stage.repeat(ahead, backward);
  }
  return make_job(out);
}

Job pipeline(int stages, int micro_steps, std::int64_t more = 1'000'000) {
  std::vector<std::int64_t> by_stage;
  for (int s = 0; s < stages; ++s) by_stage.push_back(s * more);
  return uneven_pipeline(by_stage, micro_steps);
}

TEST(SteadyLoop, SkipsMostOfALongPipeline) {
  const Both both = simulate_both(pipeline(4, 200), small_machine());
  EXPECT_EQ(both.full.skipped_ops, 0);
  EXPECT_GT(both.skipped.skipped_ops, both.full.ops * 8 / 10);
  EXPECT_EQ(both.skipped.ops, both.full.ops);
  EXPECT_EQ(both.skipped.period, both.full.period);
  EXPECT_EQ(both.skipped.first_step, both.full.first_step);
}

// The second stage takes 100 ps longer for each 10 us: no state comes again.
TEST(SteadyLoop, WithinAToleranceADriftIsSkippedToo) {
  std::vector<ClassBuilder> stages(2);
  for (const int s : {0, 1}) {
    ClassBuilder& stage = stages[static_cast<std::size_t>(s)];
    stage.repeat(400, [&] { stage.stream(Lane::kCompute, 10'000'000 + 100 * s); });
  }
  const Job job = make_job(stages);
  const Both both = simulate_both(job, small_machine());
  SimOptions options;
  options.tolerance = 1e-4;
  const SimResult drift = simulate(job, small_machine(), options);
  EXPECT_GT(drift.skipped_ops, both.skipped.skipped_ops);
  EXPECT_EQ(drift.ops, both.full.ops);
  EXPECT_GT(drift.spread.value, 0);
  EXPECT_LT(drift.spread.value, options.tolerance * drift.period.value);
  EXPECT_NEAR(drift.period.value, both.full.period.value, drift.spread.value);
  EXPECT_EQ(both.skipped.spread.value, 0);
}

// Later stages are slower by 0.1 or 3 % each: what has queued up is worked off at another pace.
TEST(SteadyLoop, StagesAtOtherPacesAreNotSkippedWithinATolerance) {
  for (const std::int64_t more : {30'000, 1'000'000}) {
    const Job job = pipeline(4, 200, more);
    SimOptions options;
    options.tolerance = 1e-4;
    const SimResult result = simulate(job, small_machine(), options);
    const double period = simulate_both(job, small_machine()).full.period.value;
    EXPECT_NEAR(result.period.value, period, options.tolerance * period) << more;
  }
}

// One stage is slower by 0.2 %: those beside it keep their own pace for long.
TEST(SteadyLoop, WithinAToleranceStagesAreSkippedAtPacesOfTheirOwn) {
  for (const std::size_t slow : {0u, 1u, 3u}) {
    std::vector<std::int64_t> more(4);
    more[slow] = 60'000;
    const Job job = uneven_pipeline(more, 400);
    SimOptions options;
    options.tolerance = 1e-4;
    const SimResult result = simulate(job, small_machine(), options);
    const Both both = simulate_both(job, small_machine());
    EXPECT_GT(result.skipped_ops, both.full.ops / 2) << slow;
    EXPECT_EQ(result.ops, both.full.ops) << slow;
    const double period = both.full.period.value;
    EXPECT_NEAR(result.period.value, period, options.tolerance * period) << slow;
  }
}

// Each iteration of the second is longer by 0.2 %, and nobody waits for anybody.
TEST(SteadyLoop, AClassThatIsSlowerIsAsLateAsItsPaceMakesIt) {
  std::vector<ClassBuilder> stages(2);
  for (const int s : {0, 1}) {
    ClassBuilder& stage = stages[static_cast<std::size_t>(s)];
    stage.repeat(400, [&] { stage.stream(Lane::kCompute, 10'000'000 + 20'000 * s); });
  }
  const Job job = make_job(stages);
  SimOptions options;
  options.tolerance = 1e-4;
  const SimResult result = simulate(job, small_machine(), options);
  const Both both = simulate_both(job, small_machine());
  EXPECT_GT(result.skipped_ops, both.full.ops / 2);
  EXPECT_PRED2([](Seconds a, Seconds b) { return close(a, b); }, result.period, both.full.period);
  EXPECT_PRED2([](Seconds a, Seconds b) { return close(a, b); }, result.first_step,
               both.full.first_step)
      << "the kernel that runs meanwhile is late, too";
}

// Two stages, the second by 0.2 % slower, whose kernels wait for two copies of 10 us, one after the
// other. A sum of 26 us slows them by half: it begins before the kernel, while the second copy is
// on its way, or with it. A class that is late in a loop that was skipped is late by just that,
// slowed or not.
Job slowed_stages(bool sum_begins_first) {
  std::vector<ClassBuilder> stages(2);
  for (const int s : {0, 1}) {
    ClassBuilder& stage = stages[static_cast<std::size_t>(s)];
    stage.repeat(400, [&] {
      const NodeIndex up = stage.copy(Tier::kCpu, Tier::kGpu, 50'000);
      const NodeIndex down = stage.copy(Tier::kGpu, Tier::kCpu, 50'000, {{.node = up, .level = 1}});
      stage.collective(CollectiveKind::kAllReduce, testing_support::groups::kTensor, 2'600'000,
                       {{.node = sum_begins_first ? up : down, .level = 1}}, Lane::kCommReduce);
      const NodeIndex kernel =
          stage.stream(Lane::kCompute, 10'000'000 + 40'000 * s, {{.node = down, .level = 1}});
      stage.add_edge(up, {.node = kernel, .level = 1, .delta = 1});
    });
  }
  return make_job(stages, 1, 2);
}

TEST(SteadyLoop, LatenessIsNeitherLostNorSlowedBesideWhatSlowsCompute) {
  Cluster cluster = small_machine();
  cluster.stack.overlap_slowdown = 0.5;
  SimOptions options, full;
  options.tolerance = 1e-4;
  full.skip_repetitions = false;
  for (const bool sum_begins_first : {false, true}) {
    const Job job = slowed_stages(sum_begins_first);
    const SimResult result = simulate(job, cluster, options);
    const SimResult simulated = simulate(job, cluster, full);
    EXPECT_GT(result.skipped_ops, simulated.ops / 2) << sum_begins_first;
    EXPECT_NEAR(result.first_step.value / simulated.first_step.value, 1, 1e-6) << sum_begins_first;
    ASSERT_EQ(result.lanes.size(), simulated.lanes.size());
    for (std::size_t i = 0; i < result.lanes.size(); ++i) {
      if (result.lanes[i].lane != Lane::kCompute) continue;
      EXPECT_NEAR(result.lanes[i].busy.value / simulated.lanes[i].busy.value, 1, 1e-6) << i;
    }
  }
}

RC_GTEST_PROP(SteadyLoop, WithinAToleranceUnevenStagesTakeAsLong, ()) {
  const int stages = *rc::gen::inRange(2, 5);
  const auto more = *rc::gen::container<std::vector<std::int64_t>>(
      static_cast<std::size_t>(stages), rc::gen::inRange<std::int64_t>(0, 200'000));
  const Job job = uneven_pipeline(more, *rc::gen::inRange(40, 300));
  SimOptions options;
  options.tolerance = 1e-4;
  const double period = simulate_both(job, small_machine()).full.period.value;
  const double found = simulate(job, small_machine(), options).period.value;
  RC_ASSERT(std::abs(found - period) <= options.tolerance * period);
}

TEST(SteadyLoop, FollowsAShallowLaunchQueue) {
  Cluster cluster = small_machine();
  cluster.node.device.launch_overhead = {15e-6};
  for (const int depth : {1, 3, 16}) {
    cluster.node.device.launch_queue_depth = depth;
    const Both both = simulate_both(pipeline(3, 100), cluster);
    EXPECT_GT(both.skipped.skipped_ops, 0) << depth;
    EXPECT_EQ(both.skipped.period, both.full.period) << depth;
  }
}

TEST(SteadyLoop, KeepsAllSpansOfATimeline) {
  SimOptions options;
  options.record_timeline = true;
  const SimResult result = simulate(pipeline(2, 40), small_machine(), options);
  EXPECT_EQ(result.skipped_ops, 0);
  EXPECT_EQ(static_cast<std::int64_t>(result.timeline.ranks[0].spans.size() +
                                      result.timeline.ranks[1].spans.size()),
            result.ops);
}

TEST(SteadyLoop, ACopyThatOutrunsTheLoopIsNotSkippedTwice) {
  ClassBuilder program;
  program.copy(Tier::kCpu, Tier::kGpu, 30'000'000);  // 3 ms beside 50 kernels of 0.1 ms
  program.repeat(50, [&] { program.stream(Lane::kCompute, 100'000'000); });
  Cluster cluster = small_machine();
  cluster.node.device.launch_queue_depth = 4;
  const Both both = simulate_both(make_job(program), cluster);
  EXPECT_GT(both.skipped.skipped_ops, 0);
  EXPECT_EQ(both.skipped.period, both.full.period);
}

// Each iteration copies twice; the second copy waits for a kernel two iterations back, so the first
// one of an iteration is done long before. What follows the loop waits for the last first copy: it
// starts while the loop still goes on, and the step ends with it.
TEST(SteadyLoop, WhatWaitsForALaneInTheLoopStartsInTime) {
  ClassBuilder program;
  const NodeIndex before = program.stream(Lane::kCompute, 4000);
  NodeIndex first = 0, kernel = 0;
  program.repeat(50, [&] {
    first = program.copy(Tier::kCpu, Tier::kGpu, 100'000);  // 10 us
    const NodeIndex second = program.copy(Tier::kCpu, Tier::kGpu, 100'000);
    kernel = program.stream(Lane::kCompute, 100'000'000, {{.node = second, .level = 1}});
    program.add_edge(second, {.node = kernel, .level = 1, .delta = 2});
  });
  const NodeIndex last = program.stream(Lane::kCommReduce, 1'000'000'000, {{.node = first}});
  program.add_edge(before, {.node = last, .delta = 1});
  program.add_edge(first, {.node = last, .delta = 1});
  const Both both = simulate_both(make_job(program), small_machine());
  EXPECT_GT(both.skipped.skipped_ops, 0);
  EXPECT_EQ(both.skipped.first_step, both.full.first_step);
  EXPECT_EQ(both.skipped.period, both.full.period);
}

// Beside 50 kernels of 0.1 ms: a kernel of 3 ms, and a copy that takes as long to begin.
TEST(SteadyLoop, WhatOutlastsManyIterationsEndsInTime) {
  for (const bool copies : {false, true}) {
    ClassBuilder program;
    const NodeIndex slow = copies ? program.copy(Tier::kCpu, Tier::kGpu, 4000)
                                  : program.stream(Lane::kCommReduce, 3'000'000'000);
    program.repeat(50, [&] { program.stream(Lane::kCompute, 100'000'000); });
    const NodeIndex last = program.stream(Lane::kCompute, 1'000'000'000, {{.node = slow}});
    program.add_edge(slow, {.node = last, .delta = 1});
    Cluster cluster = small_machine();
    cluster.node.device.copy_latency = {3e-3};
    const Both both = simulate_both(make_job(program), cluster);
    EXPECT_GT(both.skipped.skipped_ops, 0) << copies;
    EXPECT_EQ(both.skipped.first_step, both.full.first_step) << copies;
    EXPECT_EQ(both.skipped.period, both.full.period) << copies;
  }
}

// The first stage waits for the last one: without a loop, or in the first iteration of one. Where
// iterations take no time, nobody has grown older meanwhile.
TEST(SteadyLoop, AStageMayStandStillMeanwhile) {
  for (const auto& [count, duration] : {std::pair{1, 10'000'000}, {8, 10'000'000}, {8, 0}}) {
    ClassBuilder waiting, working;
    waiting.repeat(count, [&] {
      const NodeIndex input = waiting.receive(1, 4000);
      waiting.stream(Lane::kCompute, 1'000'000, {{.node = input, .level = 1}});
    });
    working.stream(Lane::kCompute, 4000);
    NodeIndex kernel = 0;
    working.repeat(50, [&] { kernel = working.stream(Lane::kCompute, duration); });
    working.repeat(
        count, [&] { working.send(0, 4000, {{.node = kernel}}); }, Var::kLayer);
    const Both both = simulate_both(make_job({waiting, working}), small_machine());
    EXPECT_EQ(both.skipped.skipped_ops > 0, count == 1);
    EXPECT_EQ(both.skipped.ops, both.full.ops) << count;
    EXPECT_EQ(both.skipped.first_step, both.full.first_step) << count;
    EXPECT_EQ(both.skipped.period, both.full.period) << count;
  }
}

// 30 of the 50 inputs of the first stage are there at once, the others after a loop of the second
// stage: kernels whose input is not there yet are not skipped.
TEST(SteadyLoop, ALoopStopsWhereItsInputsEnd) {
  ClassBuilder first, second;
  NodeIndex input = 0, kernel = 0;
  first.repeat(
      50, [&] { input = first.receive(1, 0); }, Var::kLayer);
  first.repeat(50, [&] {
    first.stream(Lane::kCompute, 1'000'000,
                 {{.node = input, .match = Match::kSame, .from_depth = 1}});
  });
  second.repeat(
      30, [&] { second.send(0, 0); }, Var::kLayer);
  second.repeat(60, [&] { kernel = second.stream(Lane::kCompute, 1'000'000); });
  second.repeat(
      20, [&] { second.send(0, 0, {{.node = kernel}}); }, Var::kLayer);
  const Both both = simulate_both(make_job({first, second}), small_machine());
  EXPECT_EQ(both.skipped.first_step, both.full.first_step);
  EXPECT_EQ(both.skipped.period, both.full.period);
}

// Between two steps the host waits until the device has done all that was launched. Kernels of the
// CPU were not; copies that have outrun the loop are done.
TEST(SteadyLoop, AHostThatWaitsForTheDeviceGoesOnInTime) {
  for (const Lane beside : {Lane::kCompute, Lane::kCpu, Lane::kH2d}) {
    ClassBuilder program;
    program.stream(Lane::kCompute, 4000);
    program.repeat(50, [&] {
      const NodeIndex kernel = program.stream(Lane::kCompute, 100'000'000);
      if (beside == Lane::kCpu) program.accumulate_on_cpu(1000, {{.node = kernel, .level = 1}});
      if (beside == Lane::kH2d) program.copy(Tier::kCpu, Tier::kGpu, 100'000);
    });
    Cluster cluster = small_machine();
    cluster.stack.host_step = 50e-6;
    const Both both = simulate_both(make_job(program), cluster);
    EXPECT_GT(both.skipped.skipped_ops, 0) << name(beside);
    EXPECT_EQ(both.skipped.ops, both.full.ops) << name(beside);
    EXPECT_EQ(both.skipped.first_step, both.full.first_step) << name(beside);
    EXPECT_EQ(both.skipped.period, both.full.period) << name(beside);
  }
}

// The all-reduce of the second stage waits for a copy of the iteration before whose bytes it uses
// again; the first one has no copy to wait for. Two beats are alike only when what their heads wait
// for is, since the time is put down to it.
TEST(SteadyLoop, WaitsForReusedBytesArePutDownInEveryIteration) {
  ClassBuilder first, second;
  const auto meet = [](ClassBuilder& stage, std::vector<Edge> after) {
    stage.collective(CollectiveKind::kAllReduce, testing_support::groups::kWorld, 4,
                     std::move(after), Lane::kCommReduce);
  };
  first.repeat(8, [&] {
    first.stream(Lane::kCompute, 4);
    meet(first, {});
  });
  second.repeat(8, [&] {
    NodeIndex copy = 0;
    second.stream(Lane::kCompute, 4);
    second.repeat(
        3, [&] { copy = second.copy(Tier::kCpu, Tier::kGpu, 40'000); }, Var::kLayer);
    meet(second, {{.node = copy, .level = 1, .delta = 1, .reuse = true}});
  });
  Cluster cluster = small_machine(2);
  cluster.node.topology.gpu_peer.reset();
  cluster.node.latency.collective_intra = cluster.node.latency.collective_inter = {1e-6};
  cluster.node.device.launch_overhead = {0};
  cluster.node.device.launch_queue_depth = 1;
  cluster.stack.host_step = 1e-6;
  const Both both = simulate_both(make_job({first, second}, 3), cluster);
  EXPECT_GT(both.skipped.skipped_ops, 0);
  EXPECT_EQ(both.skipped.period, both.full.period);
  for (std::size_t i = 0; i < both.full.lanes.size(); ++i) {
    const LaneReport &a = both.skipped.lanes[i], &b = both.full.lanes[i];
    EXPECT_TRUE(close(a.launch_wait, b.launch_wait)) << name(b.lane);
    EXPECT_TRUE(close(a.reuse_wait, b.reuse_wait)) << name(b.lane);
  }
}

RC_GTEST_PROP(SteadyLoopProperty, WhatIsSkippedShowsInNoResult, ()) {
  const Job job = RandomJob().make_looping();
  Cluster cluster = RandomJob::machine();
  cluster.stack.host_step = pick(0, 2) * 1e-6;
  const auto [skipped, full] = simulate_both(job, cluster);
  RC_TAG(skipped.skipped_ops > 0 ? "skipped" : "nothing to skip");
  RC_ASSERT(skipped.ops == full.ops);
  RC_ASSERT(skipped.steps == full.steps);
  RC_ASSERT(close(skipped.period, full.period));
  RC_ASSERT(close(skipped.first_step, full.first_step));
  for (std::size_t i = 0; i < full.lanes.size(); ++i) {
    const LaneReport &a = skipped.lanes[i], &b = full.lanes[i];
    RC_ASSERT(close(a.busy, b.busy) && close(a.exposed, b.exposed) && close(a.latency, b.latency));
    RC_ASSERT(close(a.peer_wait, b.peer_wait) && close(a.launch_wait, b.launch_wait));
    RC_ASSERT(close(a.reuse_wait, b.reuse_wait));
  }
  for (std::size_t i = 0; i < full.links.size(); ++i) {
    RC_ASSERT(close(skipped.links[i].busy_share, full.links[i].busy_share));
  }
  for (std::size_t p = 0; p < kTimePartCount; ++p) {
    RC_ASSERT(close(skipped.split.parts[p], full.split.parts[p]));
  }
}

}  // namespace
}  // namespace zplan::sim
