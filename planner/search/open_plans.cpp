#include "planner/search/open_plans.h"

#include <algorithm>
#include <utility>

namespace zplan {

void OpenPlans::enter(Plan plan, Seconds bound, bool has_depth) {
  OpenPlan& open = plans_.emplace_back();
  open.slack = plan.slack;
  open.leaf.candidate.plan = std::move(plan);
  open.leaf.candidate.bound = bound;
  open.leaf.rung = Rung::kEstimated;
  open.has_job = open.has_depth = has_depth;
  queue_.emplace(bound.value, &open);
}

void OpenPlans::add(const Plan& leaf) {
  for (const Plan& variant : variants_.of(leaf)) {
    Plan least = variants_.depths(variant).front();
    const Estimate estimate = evaluator_.estimate(least);
    if (estimate.infeasible) {
      misfits_ += depths(variant);
    } else {
      enter(std::move(least), estimate.bound, false);
    }
  }
}

std::vector<OpenPlan*> OpenPlans::next(Seconds limit, std::size_t most_fits,
                                       std::size_t most_simulations) {
  std::vector<OpenPlan*> taken;
  for (auto at = queue_.begin(); at != queue_.end() && at->first < limit.value;) {
    OpenPlan* const open = at->second;
    if (!taken.empty() && taken.front()->has_depth != open->has_depth) break;
    if (taken.size() == (open->has_depth ? most_simulations : most_fits)) break;
    taken.push_back(open);
    at = queue_.erase(at);
  }
  return taken;
}

void OpenPlans::raise(OpenPlan& open, Seconds limit) const {
  Leaf& leaf = open.leaf;
  Seconds& bound = leaf.candidate.bound;
  if (!open.has_job && evaluator_.work) {
    bound = std::max(bound, evaluator_.work(leaf.candidate.plan));
    open.has_job = true;
    if (!(bound < limit)) return;
  }
  if (leaf.rung < Rung::kFitted) fit(leaf, evaluator_);
  if (open.has_depth && !leaf.out() && bound < limit) simulate(leaf, evaluator_);
}

void OpenPlans::put_back(const std::vector<OpenPlan*>& risen,
                         const std::function<bool(const Plan&)>& is_known) {
  for (OpenPlan* const open : risen) {
    const Leaf& leaf = open->leaf;
    if (leaf.out() || leaf.candidate.step) continue;
    if (!open->has_depth && leaf.rung == Rung::kFitted) {
      Plan looser = leaf.candidate.plan;
      looser.slack = open->slack;
      const std::vector<Plan> depths = variants_.depths(looser);
      for (std::size_t i = 1; i < depths.size(); ++i)
        if (!is_known(depths[i])) enter(depths[i], leaf.any_depth, true);
      open->has_depth = true;
      open->is_known = is_known(depths.front());
      if (open->is_known) continue;
    }
    queue_.emplace(leaf.candidate.bound.value, open);
  }
}

Cuts OpenPlans::cuts(Seconds limit) const {
  Cuts cuts{.bytes = misfits_};
  for (const OpenPlan& open : plans_) {
    const Leaf& leaf = open.leaf;
    const std::int64_t plans = open.has_depth ? 1 : depths(leaf.candidate.plan);
    if (leaf.candidate.step || open.is_known) continue;
    if (leaf.out()) {
      cuts.placement += plans;
    } else if (leaf.candidate.bound < limit) {
      cuts.open += plans;
    } else {
      (open.has_job ? cuts.bound : cuts.floor) += plans;
    }
  }
  return cuts;
}

std::optional<Seconds> OpenPlans::least() const {
  if (queue_.empty()) return std::nullopt;
  return Seconds{queue_.begin()->first};
}

}  // namespace zplan
