// This simulates a step whose busiest experts have twice as much to do as a plan assumes: how
// uneven a router is nobody knows before it is trained.
#pragma once

#include <optional>

#include "planner/cli/predict/prediction.h"

namespace zplan {

// Returns nothing where each rank has all experts, or the plan has room for the worst case or a
// fixed capacity.
std::optional<ExpertLoad> expert_load(const PlannedJob& planned, const Cluster& cluster);

}  // namespace zplan
