// What a change of the cluster makes of the costs of a Job: two cost models of one Job, operation
// beside operation. So no formula is derived twice: the elasticity of an operation's time is
//   log(time after / time before) / log(factor)
// of the cost model itself, for a small change exact [derived].
#pragma once

#include <span>

#include "planner/cost/cost_model.h"

namespace zplan {

// No operation takes longer or shorter alone, or moves over another rate of a link.
bool costs_alike(const CostModel& a, const CostModel& b);

struct CostChange {
  const CostModel* changed = nullptr;  // of the same Job
  double factor = 1;                   // of what was changed
  Constant constant = 0;               // that stands for it from now on
};
// The times of `model` rest on these constants alone, for the critical path of a simulation. At
// most as many as a Reliances has rows.
void rest_on(CostModel& model, std::span<const CostChange> changes);

}  // namespace zplan
