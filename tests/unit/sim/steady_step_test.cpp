// Steps that repeat are known without being simulated, and no result shows it.
#include "sim/steady_step.h"

#include <gtest/gtest.h>

#include <vector>

#include "sim/simulate.h"
#include "tests/support/meshes.h"
#include "tests/unit/cost/small_machine.h"
#include "tests/unit/sim/job_builder.h"

namespace zplan::sim {
namespace {

constexpr std::int64_t kMicro = 1'000'000;

// No loop that is long enough to skip iterations of; the copy runs ahead into the next step.
Job short_step() {
  ClassBuilder out;
  const NodeIndex copy =
      out.copy(Tier::kCpu, Tier::kGpu, 100'000, {{.node = 1, .level = 0, .delta = 1}});
  out.stream(Lane::kCompute, 30 * kMicro, {{.node = copy}});
  out.stream(Lane::kCompute, 50 * kMicro);
  return make_job(out);
}

SimResult run(const Job& job, int min_steps, int max_steps, bool skip) {
  SimOptions options;
  options.min_steps = min_steps;
  options.max_steps = max_steps;
  options.skip_repetitions = skip;
  options.find_reliances = true;
  Cluster cluster = small_machine();
  cluster.node.device.launch_queue_depth = 2;  // or the host runs ahead to the last step
  return simulate(job, cluster, options);
}

void expect_same(const SimResult& a, const SimResult& b) {
  EXPECT_EQ(a.period, b.period);
  EXPECT_EQ(a.first_step, b.first_step);
  EXPECT_EQ(a.steps, b.steps);
  EXPECT_EQ(a.ops, b.ops);
  ASSERT_EQ(a.lanes.size(), b.lanes.size());
  for (std::size_t i = 0; i < a.lanes.size(); ++i) {
    EXPECT_EQ(a.lanes[i].busy, b.lanes[i].busy);
    EXPECT_EQ(a.lanes[i].exposed, b.lanes[i].exposed);
    EXPECT_EQ(a.lanes[i].launch_wait, b.lanes[i].launch_wait);
  }
  for (std::size_t p = 0; p < kTimePartCount; ++p) EXPECT_EQ(a.split.parts[p], b.split.parts[p]);
  ASSERT_EQ(a.links.size(), b.links.size());
  for (std::size_t i = 0; i < a.links.size(); ++i)
    EXPECT_NEAR(a.links[i].busy_share, b.links[i].busy_share, 1e-9) << a.links[i].name;
  ASSERT_EQ(a.reliances.size(), b.reliances.size());
  for (std::size_t k = 0; k < a.reliances.size(); ++k)
    EXPECT_NEAR(a.reliances[k], b.reliances[k], 1e-9) << constant_name(static_cast<Constant>(k));
}

TEST(SteadyStep, TheStepAfterTwoAlikeIsKnown) {
  const Job job = short_step();
  for (const int steps : {3, 4, 7}) {
    const SimResult known = run(job, steps, 12, true), full = run(job, steps, 12, false);
    EXPECT_EQ(full.skipped_ops, 0);
    EXPECT_GT(known.skipped_ops, 0) << steps;
    expect_same(known, full);
  }
}

TEST(SteadyStep, StepsNextToTheLastAreSimulated) {
  const Job job = short_step();
  const SimResult known = run(job, 3, 3, true);
  EXPECT_EQ(known.skipped_ops, 0) << "in the last one no lane runs ahead any more";
  expect_same(known, run(job, 3, 3, false));
}

// Two stages that meet at the end of each step; in their loops the second is slower by 100 ps in
// 10 us, which no two windows of iterations show alike.
Job drifting_steps() {
  std::vector<ClassBuilder> stages(2);
  for (const int s : {0, 1}) {
    ClassBuilder& stage = stages[static_cast<std::size_t>(s)];
    NodeIndex kernel = 0;
    stage.repeat(400, [&] { kernel = stage.stream(Lane::kCompute, 10 * kMicro + 100 * s); });
    const NodeIndex meeting =
        stage.collective(CollectiveKind::kAllReduce, testing_support::groups::kWorld, 100'000,
                         {{.node = kernel, .level = 0}});
    stage.add_edge(kernel, {.node = meeting, .level = 0, .delta = 1});
  }
  return make_job(stages);
}

TEST(SteadyStep, AStepThatIsKnownSpreadsAsMuchAsTheOneBefore) {
  SimOptions options;
  options.tolerance = 1e-4;
  options.max_steps = 12;
  const auto spread = [&](int min_steps) {
    options.min_steps = min_steps;
    return simulate(drifting_steps(), small_machine(), options).spread.value;
  };
  EXPECT_GT(spread(3), 0);
  EXPECT_NEAR(spread(8), spread(3), 1e-12);
}

}  // namespace
}  // namespace zplan::sim
