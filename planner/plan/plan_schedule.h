// The schedule that a plan names, as passes.
#pragma once

#include "planner/plan/plan.h"
#include "planner/program/schedule/schedule.h"

namespace zplan {

PassOrder order_of_stage(const Plan& plan, std::int32_t stage);

// Micro-batches between forward and backward on each stage.
std::vector<std::int64_t> in_flight_of_stages(const Plan& plan);

}  // namespace zplan
