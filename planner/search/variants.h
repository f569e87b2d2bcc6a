// Plans that differ from a leaf of the space in knobs which change neither the kernels of a layer
// nor what they wait for, so that one floor of the time holds for all of them (time_floor.h):
// gather unit (layers together, tiles of operators), sharding groups, rank order and prefetch. With
// them every leaf stands for a subtree that its floor cuts off at once.
//
// Tiles have kernels, and a floor, of their own. A deeper ring of prefetched units moves the same
// bytes by the same operations: what bounds these without their order holds for any depth.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "hwprofiles/hw_profile.h"
#include "models/model_config.h"
#include "planner/plan/pins.h"
#include "planner/plan/plan.h"

namespace zplan {

// Depths of prefetch that are in the space: 0 to so many units ahead.
inline constexpr std::int32_t kMostPrefetch = 4;

// Of the variants of leaves that differ in homes alone those of a kind have one floor: in tiles,
// and where ranks that share experts or sequences need not follow each other, it may be another
// one.
using FloorKind = std::pair<std::int32_t, RankOrder>;
FloorKind floor_kind(const Plan& plan);

class Variants {
 public:
  Variants(const ModelConfig& model, const Cluster& cluster, const Pins& pins);

  // The leaf itself first; all of the leaf's prefetch. Legal.
  std::vector<Plan> of(const Plan& leaf) const;
  // The plan with every depth that it may have, the least first, which takes the least memory.
  std::vector<Plan> depths(const Plan& plan) const;
  // Of them those with the leaf's shards and layers together: all that there are of each kind.
  std::vector<Plan> with_floors(const Plan& leaf) const;

 private:
  std::vector<Plan> with_units(const Plan& leaf) const;

  bool is_possible(const Plan& plan) const;

  ModelShape shape_;
  Pins pins_;
  std::int64_t near_;  // ranks that need no network
  bool prefetch_, units_, shards_, order_;
};

}  // namespace zplan
