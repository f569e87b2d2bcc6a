// Lower bound of the time of a step, for the search: no lane, launch queue or link can do the work
// of one step faster than alone and without a pause. [derived] lanes and queues run in order, links
// have a capacity, and in the steady state each does the work of exactly one step per period.
// It ignores all waiting, so it is loose where stages or tiers wait for each other.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "hwprofiles/hw_profile.h"
#include "planner/core/units.h"
#include "planner/cost/step_totals.h"
#include "planner/program/job/job.h"

namespace zplan {

enum class BoundBy : std::uint8_t { kLane, kLaunch, kLink };

struct TimeBound {
  Seconds seconds{};
  BoundBy by = BoundBy::kLane;
  std::size_t stage = 0;  // of a lane or of launches
  std::size_t index = 0;  // of the lane, or of the link of the CostModel
  std::string resource;   // "stage 0 compute", "PCIe uplink (pcie0>socket0)", "stage 0 launch"
};

TimeBound time_bound(const CostModel& model, const StepTotals& totals);

// Never above the simulated period.
Seconds seconds_lower_bound(const Job& job, const Cluster& cluster);

}  // namespace zplan
