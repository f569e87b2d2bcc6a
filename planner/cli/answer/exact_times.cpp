#include "planner/cli/answer/exact_times.h"

#include <utility>

#include "planner/cli/predict/prediction.h"
#include "planner/lower/lower.h"
#include "planner/place/place.h"

namespace zplan {

Seconds ExactTimes::simulate(const Plan& plan) {
  if (const auto known = find(plan)) return known->period;
  Job job = lower(plan, model_);
  place(job, {.slack = plan.slack});
  sim::SimResult found = sim::simulate(job, cluster_, with_all_of_a_prediction({}));
  const Seconds period = found.period;
  const std::lock_guard lock(mutex_);
  known_.emplace(to_json(plan), std::move(found));
  return period;
}

std::optional<sim::SimResult> ExactTimes::find(const Plan& plan) const {
  const std::lock_guard lock(mutex_);
  const auto at = known_.find(to_json(plan));
  if (at == known_.end()) return std::nullopt;
  return at->second;
}

}  // namespace zplan
