#include "planner/search/variants.h"

#include <algorithm>
#include <utility>

#include "planner/search/knobs.h"

namespace zplan {

Variants::Variants(const ModelConfig& model, const Cluster& cluster, const Pins& pins)
    : shape_(shape_of(model)),
      pins_(pins),
      near_(cluster.island()),
      prefetch_(!pins.has("/gather/prefetch")),
      units_(pins.tunes_units),
      shards_(!pins.has("/parallel/shards")),
      order_(!pins.has("/parallel/order")) {}

std::vector<Plan> Variants::with_units(const Plan& leaf) const {
  std::vector<Plan> plans{leaf};
  if (!units_ || leaf.gather.owned()) return plans;
  if (leaf.gather.by_layer()) {
    for (Plan& larger : larger_units(leaf)) plans.push_back(std::move(larger));
  } else if (has_rings(leaf)) {
    for (std::int32_t tiles = 2 * leaf.gather.tiles();; tiles *= 2) {
      Plan tiled = leaf;
      tiled.gather = Gather::in_tiles(tiles);
      if (illegal(tiled, shape_)) break;
      plans.push_back(std::move(tiled));
    }
  }
  return plans;
}

std::vector<Plan> Variants::of(const Plan& leaf) const {
  std::vector<Plan> plans = with_units(leaf);
  const auto multiply = [&](bool is_free, auto knob) {
    const std::size_t before = plans.size();
    for (std::size_t i = 0; is_free && i < before; ++i)
      for (Plan& plan : knob(plans[i], near_)) plans.push_back(std::move(plan));
  };
  multiply(shards_, sharding_groups);
  multiply(order_, pipeline_first);
  std::erase_if(plans, [&](const Plan& plan) { return !is_possible(plan); });
  return plans;
}

bool Variants::is_possible(const Plan& plan) const {
  return !illegal(plan, shape_) && pins_.allows(plan);
}

FloorKind floor_kind(const Plan& plan) {
  const bool meets_by_order = plan.parallel.ep > 1 || plan.parallel.cp > 1;
  return {plan.gather.tiles(), meets_by_order ? plan.order : RankOrder::kDataFirst};
}

std::vector<Plan> Variants::with_floors(const Plan& leaf) const {
  std::vector<Plan> plans = of(leaf);
  std::erase_if(plans, [&](const Plan& plan) {
    return plan.parallel.shards != leaf.parallel.shards ||
           plan.gather.layers() != leaf.gather.layers();
  });
  return plans;
}

std::vector<Plan> Variants::depths(const Plan& plan) const {
  if (!prefetch_ || !has_rings(plan)) return {plan};
  std::vector<Plan> plans;
  for (std::int32_t depth = 0; depth <= kMostPrefetch; ++depth) {
    plans.push_back(plan);
    plans.back().prefetch = depth;
    if (!pins_.allows(plans.back())) plans.pop_back();
  }
  return plans;
}

}  // namespace zplan
