// Simulates three steps of a plan and shows what ran when.
#pragma once

#include <vector>

#include "hwprofiles/hw_profile.h"
#include "sim/simulate.h"
#include "tests/support/placed_job.h"

namespace zplan::testing_support {

// Returns the timeline of all ranks on the cluster that the plan names.
inline Timeline timeline_of(const Plan& plan) {
  sim::SimOptions options;
  options.record_timeline = true;
  options.min_steps = options.max_steps = 3;
  return sim::simulate(placed_job(plan), load_cluster(plan.hardware), options).timeline;
}

// Returns that of the first rank.
inline std::vector<Span> spans_of(const Plan& plan) {
  return timeline_of(plan).ranks.front().spans;
}

}  // namespace zplan::testing_support
