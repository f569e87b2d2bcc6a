// The Job of a plan that was read from a file.
#pragma once

#include "planner/cli/frame/plan_file.h"
#include "planner/cli/predict/prediction.h"

namespace zplan {

// Says on stderr when model and decisions are those that the file was written with and the Job is
// another one: this zplan lowers or places it otherwise.
PlannedJob planned_job(const ReadPlan& read);

}  // namespace zplan
