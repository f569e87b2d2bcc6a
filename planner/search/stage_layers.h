// How the layers of a model are dealt out to pipeline stages, as planner/lower does it.
#pragma once

#include <cstdint>

#include "planner/plan/plan.h"

namespace zplan {

// What the plan says, else evenly; the first stages have one more where that leaves a rest.
inline std::int64_t layers_of_stage(const Plan& plan, std::int64_t layers, std::int32_t stage) {
  if (!plan.stage_layers.empty()) return plan.stage_layers[static_cast<std::size_t>(stage)];
  return layers / plan.parallel.pp + (stage < layers % plan.parallel.pp ? 1 : 0);
}

}  // namespace zplan
