// Lowers and places plans, as all that reads them finds them.
#pragma once

#include "planner/lower/lower.h"
#include "planner/place/place.h"

namespace zplan::testing_support {

inline Job placed_job(const Plan& plan, const ModelConfig& model) {
  Job job = lower(plan, model);
  place(job, {.slack = plan.slack});
  return job;
}

inline Job placed_job(const Plan& plan) { return placed_job(plan, load_model(plan.model)); }

}  // namespace zplan::testing_support
