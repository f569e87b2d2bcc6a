// Search's questions answered by the rest of the program: lower, place, cost, sim.
#include <algorithm>
#include <memory>
#include <utility>

#include "planner/cost/bounds.h"
#include "planner/lower/lower.h"
#include "planner/place/place.h"
#include "planner/search/bytes_bound.h"
#include "planner/search/memory_use.h"
#include "planner/search/search.h"
#include "planner/search/time_floor.h"
#include "sim/simulate.h"

namespace zplan {
namespace {

class PlanEvaluator {
 public:
  PlanEvaluator(const ModelConfig& model, const Cluster& cluster)
      : model_(model), cluster_(cluster) {}

  Estimate estimate(const Plan& plan) {
    const Parallel& shape = plan.parallel;
    const std::vector<NodeFill> fills = node_fills(shape.dp, shape.pp, plan.order, cluster_);
    Estimate result;
    result.infeasible = worst_tier(memory_use(bytes_bound(plan, model_), fills, cluster_));
    if (!result.infeasible) result.bound = floors_.of(plan, model_, cluster_);
    return result;
  }

  // Where the plan's slack does not fit, the tightest placement decides.
  Fit fit(const Plan& plan) const {
    const Job job = lower(plan, model_);
    Job placed = place_copy(job, plan.slack);
    Fit result{
        .infeasible = check_fit(placed, cluster_), .slack = plan.slack, .prefetch = plan.prefetch};
    if (result.infeasible && plan.slack > 0) {
      placed = place_copy(job, 0);
      result.slack = 0;
      result.infeasible = check_fit(placed, cluster_);
    }
    for (const RankClass& c : placed.classes)
      result.gpu = std::max(result.gpu, c.placement.slab[static_cast<std::size_t>(Tier::kGpu)]);
    if (!result.infeasible) result.bound = seconds_lower_bound(placed, cluster_);
    return result;
  }

  Seconds simulate(const Plan& plan) const {
    const Job job = place_copy(lower(plan, model_), plan.slack);
    return sim::simulate(job, cluster_).period;
  }

 private:
  static Job place_copy(Job job, double slack) {
    place(job, {.slack = slack});
    return job;
  }

  const ModelConfig model_;
  const Cluster cluster_;
  TimeFloors floors_;
};

Plan without_prefetch(Plan plan) {
  plan.prefetch = 0;
  return plan;
}

}  // namespace

Evaluator make_evaluator(const ModelConfig& model, const Cluster& cluster) {
  const auto self = std::make_shared<PlanEvaluator>(model, cluster);
  return {.estimate = [self](const Plan& plan) { return self->estimate(plan); },
          .fit = [self](const Plan& plan) { return self->fit(plan); },
          .simulate = [self](const Plan& plan) { return self->simulate(plan); }};
}

Evaluator with_free_prefetch(Evaluator exact) {
  Evaluator free = exact;
  // Nothing fits that does not without prefetch; no bound on the time knows of it.
  free.estimate = [ask = exact.estimate](const Plan& plan) { return ask(without_prefetch(plan)); };
  free.fit = [ask = std::move(exact.fit)](const Plan& plan) {
    Fit fit = ask(plan);
    const bool has_rings = plan.zero_stage >= 2;  // of gathered parameters or passing gradients
    if (fit.infeasible && has_rings && plan.prefetch > 0) fit = ask(without_prefetch(plan));
    return fit;
  };
  return free;
}

}  // namespace zplan
