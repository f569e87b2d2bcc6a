// The answer of `zplan diff`: two plans beside each other. JSON schema "zplan.diff/1".
#pragma once

#include <array>
#include <string>
#include <vector>

#include "planner/cli/frame/options.h"
#include "planner/cli/frame/sheet.h"
#include "planner/cli/predict/prediction.h"
#include "planner/cost/role_times.h"
#include "planner/plan/plan_difference.h"

namespace zplan {

struct DiffSide {
  std::string file;
  PlannedJob planned;
  Cluster cluster;
  MemoryPrediction memory;
  TimePrediction time;
  RoleTimes roles;
};

// Operations of one role, in both plans; a plan that has none has 0 of them.
struct RoleDifference {
  RoleKey key;
  std::array<RoleTime, 2> sides;
};

struct PlanDiff {
  std::array<DiffSide, 2> sides;
  std::vector<DecisionChange> decisions;
  std::vector<RoleDifference> roles;  // those that differ most in time first
};

PlanDiff find_diff(const DiffCommand& command);
std::vector<RoleDifference> role_differences(const RoleTimes& before, const RoleTimes& after);

Sheet diff_sheet(const PlanDiff& diff);

}  // namespace zplan
