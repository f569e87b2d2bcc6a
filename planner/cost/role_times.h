// The time of a Job's operations by what they are for, of each alone: roles (phase, part, action)
// are the same in Jobs of different plans, so that two plans can be held beside each other without
// a timeline. Per step, one rank of each stage.
#pragma once

#include <cstdint>
#include <map>
#include <tuple>

#include "planner/cost/cost_model.h"

namespace zplan {

struct RoleTime {
  std::int64_t operations = 0;
  Seconds time{};  // nothing beside them; lanes run side by side, so these do not add up to a step
};

// Everything but marks; both ends of a transfer count.
struct RoleKey {
  Role role;
  Lane lane = Lane::kCompute;
  friend bool operator<(const RoleKey& a, const RoleKey& b) {
    return std::tuple(a.role.phase, a.role.part, a.role.action, a.lane) <
           std::tuple(b.role.phase, b.role.part, b.role.action, b.lane);
  }
};
using RoleTimes = std::map<RoleKey, RoleTime>;

// Over all stages, as rows of a comparison of timelines are
// (planner/program/timeline/comparison.h).
RoleTimes role_times(const CostModel& model);

}  // namespace zplan
