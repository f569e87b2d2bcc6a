#include "planner/cli/predict/expert_load.h"

#include <algorithm>

#include "planner/plan/limits.h"

namespace zplan {

std::optional<ExpertLoad> expert_load(const PlannedJob& planned, const Cluster& cluster) {
  const Plan& plan = planned.plan;
  const bool is_uneven = plan.parallel.ep > 1 && plan.expert_imbalance > 0;
  if (!is_uneven || plan.capacity_factor > 0) return std::nullopt;
  Plan twice = plan;
  twice.expert_imbalance =
      std::min(2 * plan.expert_imbalance, static_cast<double>(kMaxExpertFactor));
  const PlannedJob other = build_job(twice, planned.model);
  return ExpertLoad{.imbalance = plan.expert_imbalance,
                    .twice = twice.expert_imbalance,
                    .step = sim::simulate(other.job, cluster).period,
                    .fits = !predict_memory(other, cluster).infeasible};
}

}  // namespace zplan
