// Folding changes nothing: a Job and its unrolled twin give the same Timeline.
#include <gtest/gtest.h>
//
#include <rapidcheck/gtest.h>

#include <cmath>

#include "planner/program/instances/unroll.h"
#include "sim/simulate.h"
#include "tests/support/meshes.h"
#include "tests/unit/sim/random_job.h"

namespace zplan::sim {
namespace {

SimResult record(const Job& job, const Cluster& cluster) {
  SimOptions options;
  options.record_timeline = true;
  return simulate(job, cluster, options);
}

RC_GTEST_PROP(SimFold, TheUnrolledTwinOfAJobRunsAlike, ()) {
  const Job job = RandomJob().make();
  const Cluster cluster = RandomJob::machine();
  const SimResult folded = record(job, cluster), unrolled = record(unroll(job), cluster);
  RC_ASSERT(folded.timeline == unrolled.timeline);
  RC_ASSERT(folded.ops == unrolled.ops);
  // Sums over the links are added up in another order.
  constexpr double kRoundoff = 1e-12;
  RC_ASSERT(std::abs(folded.period.value / unrolled.period.value - 1) <= kRoundoff);
}

// Forward over the layers, back in mirrored order, each backward layer after its forward twin.
TEST(SimFold, ForwardAndMirroredBackwardLayersRunAlike) {
  ClassBuilder program;
  const auto edge = [](NodeIndex node, int level, int delta) {
    Edge e;
    e.node = node;
    e.level = level;
    e.delta = delta;
    return e;
  };
  program.repeat(3, [&] {
    NodeIndex forward = 0;
    program.repeat(
        5,
        [&] {
          const NodeIndex gather = program.collective(CollectiveKind::kAllGather,
                                                      testing_support::groups::kData, 400'000);
          forward = program.stream(Lane::kCompute, 9'000'000, {edge(gather, 2, 0)});
          program.add_edge(gather, edge(forward, 2, 2));
        },
        Var::kLayer);
    program.repeat(
        5,
        [&] {
          Edge twin = edge(forward, 1, 0);
          twin.match = Match::kMirror;
          twin.from_depth = 2;
          const NodeIndex up = program.copy(Tier::kCpu, Tier::kGpu, 50'000, {twin});
          program.stream(Lane::kCompute, 17'000'000, {edge(up, 2, 0)});
        },
        Var::kLayer);
  });
  const Job job = make_job(program, 4);
  const Cluster cluster = small_machine();
  EXPECT_EQ(record(job, cluster).timeline, record(unroll(job), cluster).timeline);
}

}  // namespace
}  // namespace zplan::sim
