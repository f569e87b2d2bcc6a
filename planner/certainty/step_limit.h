// What a step could take at best, for a run to be held against: the time that the resource with
// most to do needs for the work of one step, alone and without a pause (planner/cost/bounds.h), at
// the rates of the cluster. A run reaches that time / its own, 1 where the resource never waits;
// more where the machine is faster than its profile says.
#pragma once

#include "hwprofiles/hw_profile.h"
#include "planner/cost/bounds.h"
#include "planner/program/job/job.h"

namespace zplan {

struct StepLimit {
  TimeBound bound;
  // All that it rests on was measured by `zplan calibrate`; else a profile states some of it.
  bool calibrated = false;
};
// Throws Error where the cluster cannot run the job.
StepLimit step_limit(const Job& job, const Cluster& cluster);

}  // namespace zplan
