#include "planner/search/group_floors.h"

#include <algorithm>
#include <atomic>
#include <map>
#include <ranges>
#include <set>
#include <utility>
#include <vector>

#include "planner/search/siblings.h"
#include "planner/search/worker_pool.h"

namespace zplan {

bool is_known_misfit(const Leaf& leaf, const Plan& variant) {
  return leaf.out() && variant.order == leaf.candidate.plan.order;
}

// Each kind has one floor for all homes, so that the first that may fit tells it.
std::optional<Seconds> GroupFloors::of(
    std::span<const Leaf> leaves, const std::function<Plan(const Leaf&)>& as_enumerated) const {
  std::map<FloorKind, Seconds> floors;
  std::set<FloorKind> kinds;  // the farthest homes have all that there are
  for (std::size_t i = leaves.size(); i-- > 0 && (kinds.empty() || floors.size() < kinds.size());) {
    const Leaf& leaf = leaves[i];
    if (leaf.out() && leaf.candidate.infeasible->tier == Tier::kGpu) continue;
    for (const Plan& plan : variants_.with_floors(as_enumerated(leaf))) {
      const FloorKind kind = floor_kind(plan);
      kinds.insert(kind);
      if (floors.contains(kind) || is_known_misfit(leaf, plan)) continue;
      const Estimate estimate = exact_.estimate(variants_.depths(plan).front());
      if (!estimate.infeasible) floors.emplace(kind, estimate.bound);
    }
  }
  if (floors.empty()) return std::nullopt;
  return std::ranges::min(floors | std::views::values);
}

std::optional<Seconds> least_floor(const ModelConfig& model, const Cluster& cluster,
                                   const Pins& pins, const Evaluator& exact, int threads,
                                   Seconds enough) {
  std::vector<Plan> plans = enumerate(model, cluster, pins);
  std::vector<Leaf> leaves(plans.size());
  for (std::size_t i = 0; i < plans.size(); ++i) leaves[i].candidate.plan = std::move(plans[i]);
  const Siblings siblings(leaves);
  std::vector<std::pair<std::size_t, std::size_t>> groups;  // begin, size
  for (std::size_t begin = 0, end = 0; begin < leaves.size(); begin = end) {
    end = siblings.end_of_group(begin);
    groups.emplace_back(begin, end - begin);
  }
  const Variants variants(model, cluster, pins);
  const GroupFloors floors(variants, exact);
  std::vector<std::optional<Seconds>> found(groups.size());
  std::atomic<bool> has_enough = false;
  WorkerPool pool(threads);
  pool.for_each(groups.size(), [&](std::size_t g) {
    if (has_enough) return;
    const auto [begin, size] = groups[g];
    found[g] =
        floors.of({&leaves[begin], size}, [](const Leaf& leaf) { return leaf.candidate.plan; });
    if (found[g] && *found[g] < enough) has_enough = true;
  });
  std::optional<Seconds> least;
  for (const auto& floor : found)
    if (floor && !(least && *least <= *floor)) least = floor;
  return least;
}

}  // namespace zplan
