// The stages that a bound looks at. A bound is a maximum over what single stages, lanes and links
// have to do, so that any stages give one; those in the middle of a pipeline do the same as each
// other. Looked at are the first, the last, the middle one and the one with the most layers, each
// with the stages of the nodes that it has ranks in, whose links they load together.
#pragma once

#include <cstdint>
#include <set>
#include <vector>

#include "models/model_config.h"
#include "planner/plan/plan.h"
#include "planner/plan/plan_schedule.h"
#include "planner/search/node_fill.h"

namespace zplan {

// `stages`: in_flight_of_stages(plan). `fills`: of the nodes of the plan.
std::set<std::int32_t> bounded_stages(const Plan& plan, const ModelConfig& model,
                                      const StagePieces& stages,
                                      const std::vector<NodeFill>& fills);

}  // namespace zplan
