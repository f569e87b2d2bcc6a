#include "planner/cli/diff/diff.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "planner/cli/frame/plan_file.h"
#include "planner/cli/predict/planned_file.h"
#include "planner/cli/predict/stack_use.h"

namespace zplan {
namespace {

DiffSide side_of(const DiffCommand& command, const std::string& file) {
  const ReadPlan read = read_plan(file);
  Cluster cluster = cluster_of(read, command.cluster);
  cluster.headroom = command.headroom;
  const StackUse use = software_of(read, command.stack, "", cluster);
  simulate_with_stack(use, read.plan, cluster);
  DiffSide side{.file = file,
                .planned = planned_job(read),
                .cluster = std::move(cluster),
                .memory = {},
                .time = {},
                .roles = {}};
  side.memory = predict_memory(side.planned, side.cluster);
  side.time = predict_time(side.planned, side.cluster, use.evidence);
  side.roles = role_times(CostModel(side.planned.job, side.cluster));
  return side;
}

}  // namespace

std::vector<RoleDifference> role_differences(const RoleTimes& before, const RoleTimes& after) {
  std::map<RoleKey, std::array<RoleTime, 2>> joined;
  for (const auto& [key, time] : before) joined[key][0] = time;
  for (const auto& [key, time] : after) joined[key][1] = time;
  std::vector<RoleDifference> rows;
  for (const auto& [key, sides] : joined) rows.push_back({key, sides});
  const auto by = [](const RoleDifference& row) {
    return std::abs(row.sides[1].time.value - row.sides[0].time.value);
  };
  std::stable_sort(rows.begin(), rows.end(),
                   [&](const RoleDifference& a, const RoleDifference& b) { return by(a) > by(b); });
  return rows;
}

PlanDiff find_diff(const DiffCommand& command) {
  PlanDiff diff{.sides = {side_of(command, command.before), side_of(command, command.after)},
                .decisions = {},
                .roles = {}};
  diff.decisions = plan_difference(diff.sides[0].planned.plan, diff.sides[1].planned.plan);
  diff.roles = role_differences(diff.sides[0].roles, diff.sides[1].roles);
  return diff;
}

}  // namespace zplan
