#include "planner/search/open_plans.h"

#include <algorithm>
#include <tuple>
#include <utility>

namespace zplan {
namespace {

// Those on one rung rise together.
bool on_one_rung(const OpenPlan& a, const OpenPlan& b) {
  return a.has_job == b.has_job && a.has_depth == b.has_depth && a.homes.empty() == b.homes.empty();
}

bool is_to_be_simulated(const OpenPlan& open) { return open.has_job && open.has_depth; }

}  // namespace

void OpenPlans::enter(Plan plan, Seconds bound, bool has_depth) {
  OpenPlan& open = plans_.emplace_back();
  open.slack = plan.slack;
  open.leaf.candidate.plan = std::move(plan);
  open.leaf.candidate.bound = bound;
  open.leaf.rung = Rung::kEstimated;
  open.has_depth = has_depth;
  queue_.emplace(bound.value, &open);
}

void OpenPlans::add(const std::vector<Plan>& leaves) {
  std::map<std::tuple<std::int32_t, RankOrder, Gather>, OpenPlan*> known;
  for (const Plan& leaf : leaves) {
    for (const Plan& variant : variants_.of(leaf)) {
      Plan least = variants_.depths(variant).front();
      const Estimate estimate = evaluator_.estimate(least);
      if (estimate.infeasible) {
        misfits_ += depths(variant);
        continue;
      }
      OpenPlan*& open = known[{variant.parallel.shards, variant.order, variant.gather}];
      if (open == nullptr) open = &plans_.emplace_back();
      Leaf& own = open->homes.emplace_back();
      own.candidate.plan = std::move(least);
      own.candidate.bound = estimate.bound;
      own.rung = Rung::kEstimated;
    }
  }
  for (const auto& [key, open] : known) {
    open->leaf = std::ranges::min(open->homes, {}, [](const Leaf& leaf) { return leaf.value(); });
    queue_.emplace(open->leaf.candidate.bound.value, open);
  }
}

std::vector<OpenPlan*> OpenPlans::next(Seconds limit, std::size_t most_fits,
                                       std::size_t most_simulations) {
  std::vector<OpenPlan*> taken;
  for (auto at = queue_.begin(); at != queue_.end() && at->first < limit.value;) {
    OpenPlan* const open = at->second;
    if (!taken.empty() && !on_one_rung(*taken.front(), *open)) break;
    if (taken.size() == (is_to_be_simulated(*open) ? most_simulations : most_fits)) break;
    taken.push_back(open);
    at = queue_.erase(at);
  }
  return taken;
}

void OpenPlans::raise(OpenPlan& open) const {
  if (!open.homes.empty()) return share_work(open);
  if (!open.has_job) return bound_job(open);
  Leaf& leaf = open.leaf;
  open.any_depth = leaf.candidate.bound;
  if (leaf.rung < Rung::kFitted) fit(leaf, evaluator_);
  if (open.has_depth && !leaf.out()) simulate(leaf, evaluator_);
}

void OpenPlans::share_work(OpenPlan& open) const {
  if (!evaluator_.shared_work) return;
  Plan deepest = open.leaf.candidate.plan;
  for (const Leaf& home : open.homes)
    deepest.prefetch =
        std::max(deepest.prefetch, variants_.depths(home.candidate.plan).back().prefetch);
  const Seconds shared = evaluator_.shared_work(deepest);
  const auto bound = [&](Leaf& leaf) {
    leaf.candidate.bound = std::max(leaf.candidate.bound, shared);
  };
  std::ranges::for_each(open.homes, bound);
  bound(open.leaf);
}

void OpenPlans::bound_job(OpenPlan& open) const {
  Candidate& candidate = open.leaf.candidate;
  open.has_job = true;
  if (!evaluator_.bound) return;
  const Seconds found = open.has_depth
                            ? evaluator_.bound(candidate.plan)
                            : evaluator_.bound_of_depths(variants_.depths(candidate.plan).back());
  candidate.bound = std::max(candidate.bound, found);
}

void OpenPlans::put_back(const std::vector<OpenPlan*>& risen, Seconds limit,
                         const std::function<bool(const Plan&)>& is_known) {
  for (OpenPlan* const open : risen) {
    const Leaf& leaf = open->leaf;
    if (leaf.out() || leaf.candidate.step) continue;
    if (!open->homes.empty() && leaf.candidate.bound < limit) split_homes(*open);
    if (leaf.rung == Rung::kFitted && !open->has_depth) split_depths(*open, is_known);
    if (!open->is_known) queue_.emplace(leaf.candidate.bound.value, open);
  }
}

void OpenPlans::split_homes(OpenPlan& open) {
  for (const Leaf& home : std::exchange(open.homes, {}))
    enter(home.candidate.plan, home.candidate.bound, false);
  open.is_known = true;
}

void OpenPlans::split_depths(OpenPlan& open, const std::function<bool(const Plan&)>& is_known) {
  Plan looser = open.leaf.candidate.plan;
  looser.slack = open.slack;
  const std::vector<Plan> depths = variants_.depths(looser);
  for (std::size_t i = 1; i < depths.size(); ++i)
    if (!is_known(depths[i])) enter(depths[i], open.any_depth, true);
  open.has_depth = true;
  open.is_known = is_known(depths.front());
}

Cuts OpenPlans::cuts(Seconds limit) const {
  Cuts cuts{.bytes = misfits_};
  for (const OpenPlan& open : plans_) {
    const Leaf& leaf = open.leaf;
    for (const Leaf& home : open.homes)
      (home.candidate.bound < limit ? cuts.open : cuts.shared) += depths(home.candidate.plan);
    if (!open.homes.empty()) continue;
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
