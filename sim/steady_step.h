// SteadyStep: notices that a step has ended as the step before it did, so that the next one is
// known without being simulated.
//
// At the end of a step the state of the engine is written down relative to the present and to the
// step: times from now, lanes and launching threads from the step, thresholds from what the lanes
// had to complete by now, flows with their exact bytes and rates. The engine is a function of that
// state as long as no lane comes to the last step to run: thresholds move on by a lane's ops per
// step, and edges reach back one step at most. If two states are equal, the step after the second
// is the one between them again.
#pragma once

#include <cstdint>
#include <deque>
#include <span>
#include <vector>

#include "sim/class_state.h"
#include "sim/flow_network.h"

namespace zplan::sim {

class SteadyStep {
 public:
  explicit SteadyStep(std::int64_t max_steps) : max_steps_(max_steps) {}

  // After `steps` steps, with all clocks settled: whether the next `more` steps are the last one
  // again.
  bool repeats(SimTime now, std::int64_t steps, std::int64_t more,
               const std::deque<ClassState>& classes, FlowNetwork& network,
               std::span<const std::uint32_t> flow_leader);

 private:
  void write_class(const ClassState& own, SimTime now, std::int64_t steps);
  void write_lane(const ClassState& own, Lane lane, SimTime now, std::int64_t steps);

  std::int64_t max_steps_;
  std::int64_t furthest_ = 0;                  // step that a lane or a launching thread stands in
  std::vector<std::int64_t> before_, latest_;  // empty: equals no other
};

}  // namespace zplan::sim
