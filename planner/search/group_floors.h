// Floors of the groups of leaves that differ in homes alone (siblings.h), each with all its
// variants (variants.h): no plan of a group that may fit takes less.
#pragma once

#include <functional>
#include <optional>
#include <span>

#include "planner/search/leaf.h"
#include "planner/search/variants.h"

namespace zplan {

// Of a leaf that lacks memory of a node: in another order nodes have other ranks.
bool is_known_misfit(const Leaf& leaf, const Plan& variant);

class GroupFloors {
 public:
  // `exact` answers for single plans.
  GroupFloors(const Variants& variants, const Evaluator& exact)
      : variants_(variants), exact_(exact) {}

  // The leaves of one group in the order of the space; `as_enumerated` gives the plan of one before
  // anything was left out for it to fit. Nothing: no plan of the group fits, however it is placed.
  std::optional<Seconds> of(std::span<const Leaf> leaves,
                            const std::function<Plan(const Leaf&)>& as_enumerated) const;

 private:
  const Variants& variants_;
  const Evaluator& exact_;
};

// The least of the space, or any that is below `enough`: then the others are not looked at.
// Nothing: no plan of the space fits. Throws Error as enumerate does.
std::optional<Seconds> least_floor(const ModelConfig& model, const Cluster& cluster,
                                   const Pins& pins, const Evaluator& exact, int threads,
                                   Seconds enough = {});

}  // namespace zplan
