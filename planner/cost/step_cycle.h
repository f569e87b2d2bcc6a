// How long a step takes at least because operations wait for each other: the longest path over the
// operations of one class, each as long as it takes alone, from one of them to the same one of the
// next step. [derived] In the steady state these begin one period apart; other classes, links that
// are shared, launches and reuse edges only make paths longer.
//
// Operations are ordered along their lanes and by edges. Of a loop of more than eight iterations
// the first and the last one are walked. Those between take of each lane what it works in them, or
// as long as the longest path from the first operation of an iteration on that lane to the same one
// of the next, where that is longer. An edge to an operation that is not walked counts as one to
// the operation walked before it on its lane, which ends earlier.
#pragma once

#include <array>
#include <functional>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "planner/core/units.h"
#include "planner/cost/cost_model.h"
#include "planner/program/instances/cursor.h"
#include "planner/program/job/program.h"

namespace zplan {

class StepCycle {
 public:
  // `costs`: of each node. `counts`: what other nodes do takes no time. The Program, which has
  // edges, must outlive the cycle.
  StepCycle(
      const Program& program, std::span<const OpCost> costs,
      const std::function<bool(const Node&)>& counts = [](const Node&) { return true; });

  // The longer one of the paths through the first operation of the compute lane and through that of
  // the lane that works longest.
  SimTime period() const;
  // From the end of the last kernel of backward to the begin of the first one of forward of the
  // next step that computes, on the compute lane; zero where there is none.
  SimTime turn() const;
  // From the begin of the first kernel of forward that computes to the end of the last one of
  // backward of a step, on the compute lane; zero where there is none.
  SimTime through() const;

 private:
  struct Walk;
  // One iteration of a block.
  struct Iteration {
    std::array<std::optional<NodeIndex>, kLaneCount> first{};  // operation of each lane
    std::array<SimTime, kLaneCount> work{};
    std::array<SimTime, kLaneCount> pace{};  // from its begin to that of the next one, at least
  };

  // First kernel of forward and last kernel of backward; none where one of them is missing.
  std::optional<std::pair<NodeIndex, NodeIndex>> ends_of_passes() const;
  void add_up(BlockIndex block);
  SimTime around(BlockIndex block, NodeIndex node) const;
  void pass(Walk& walk, BlockIndex block) const;
  void repeat(Walk& walk, BlockIndex block) const;
  void skip(Walk& walk, BlockIndex block) const;
  void visit(Walk& walk, NodeIndex node) const;
  std::vector<Lane> busy_lanes(BlockIndex block) const;

  const Program& program_;
  std::vector<SimTime> alone_;  // by node: its duration
  const ProgramIndex index_;
  std::vector<Iteration> iterations_;  // by block
};

}  // namespace zplan
