// Lower bounds of the period of a plan's own Job: what its lanes and links have to do, the floor of
// its kernels with what passes between steps (time_floor.h), and the longest path through a step
// (cost/step_cycle.h): of one stage by itself, and of one with the stages before it.
#pragma once

#include <algorithm>
#include <functional>

#include "hwprofiles/hw_profile.h"
#include "planner/cost/bounds.h"
#include "planner/cost/shared_wires.h"
#include "planner/plan/plan.h"
#include "planner/plan/plan_schedule.h"
#include "planner/program/job/job.h"
#include "planner/search/time_floor.h"

namespace zplan {

// What lanes and links have to do is far above the floor of the kernels where it is so many times
// as long. [assumed] Then no walk through the Job is needed to tell that it is slow, and none is
// made: it takes several times as long as all that comes before it.
inline constexpr double kFarAbove = 2;

struct JobBound {
  TimeBound work;
  Seconds floor{};       // of the kernels
  Seconds with_turns{};  // of the kernels and what passes between steps
  Seconds longest_path{};
  // The first micro-batch through the stages before one, the walk through that one, the last
  // micro-batch back, and what passes on the first stage between steps.
  Seconds through_stages{};

  bool is_far_above() const { return work.seconds >= floor * kFarAbove; }
  // Of all plans with the prefetch or a shallower one. [derived] Parameters that are gathered from
  // GPUs, no operator of them in tiles, have a lane of their own in the same order, where a deeper
  // ring waits for less; where it changes the order only what counts without it holds.
  Seconds bound_of_depths(const Plan& plan) const {
    const bool in_order = plan.placement.params == Tier::kGpu && plan.gather.tiles() == 1;
    return in_order ? bound() : std::max(work.seconds, floor);
  }
  Seconds bound() const {
    return std::max({work.seconds, floor, with_turns, longest_path, through_stages});
  }
};

struct BoundOptions {
  // What other nodes do takes no time.
  std::function<bool(const Node&)> counts = [](const Node&) { return true; };
  SharedWires* wires = nullptr;  // of the cluster (cost_model.h)
};

// Walks the first stage and the one that computes longest, whose programs get data edges, unless
// the work is far above the floor. `stages`: in_flight_of_stages(plan).
JobBound bound_of_job(const Plan& plan, Job& job, const Cluster& cluster, TimeFloors& floors,
                      const StagePieces& stages, const BoundOptions& options = {});

}  // namespace zplan
