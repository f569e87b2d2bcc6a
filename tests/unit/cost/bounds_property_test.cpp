// Law: a bound never exceeds what is simulated.
#include "planner/cost/bounds.h"

#include <gtest/gtest.h>
//
#include <rapidcheck/gtest.h>

#include "sim/simulate.h"
#include "tests/unit/sim/random_job.h"

namespace zplan {
namespace {

RC_GTEST_PROP(BoundsProperty, TheTimeBoundNeverExceedsTheSimulatedPeriod, ()) {
  const Job job = RandomJob().make();
  const Cluster cluster = RandomJob::machine();
  RC_ASSERT(seconds_lower_bound(job, cluster).value <= sim::simulate(job, cluster).period.value);
}

RC_GTEST_PROP(BoundsProperty, ItHoldsOnNetworksOfLeavesAndWithDomainsThatAreNoNodes, ()) {
  const Job job = RandomJob().make();
  Cluster cluster = RandomJob::machine();
  cluster.network = {pick(1, 2), 1.0 * pick(1, 4), pick(0, 1) == 1, pick(0, 1) == 1};
  cluster.fast_link_domain = *rc::gen::element(0, 1, 2, 8);
  RC_ASSERT(seconds_lower_bound(job, cluster).value <= sim::simulate(job, cluster).period.value);
}

// Not by the floor under the reported period: n steps back to back take at least n bounds.
RC_GTEST_PROP(BoundsProperty, NoNumberOfStepsEndsBeforeAsManyBounds, ()) {
  const Job job = RandomJob().make();
  const Cluster cluster = RandomJob::machine();
  sim::SimOptions options;
  options.record_timeline = true;
  const sim::SimResult result = sim::simulate(job, cluster, options);
  SimTime end{0};
  for (const RankTimeline& rank : result.timeline.ranks) {
    for (const Span& span : rank.spans) end = std::max(end, span.end);
  }
  constexpr double kRoundoff = 1e-12;
  const double bounds = seconds_lower_bound(job, cluster).value * result.steps;
  RC_ASSERT(bounds <= to_seconds(end).value * (1 + kRoundoff));
}

}  // namespace
}  // namespace zplan
