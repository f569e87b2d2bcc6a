// The answer of `zplan bandwidth`: what the states of a plan move between tiers, beside the closed
// forms of ZeRO-Infinity (models/zero_infinity.h), and what other bandwidths would cost. JSON
// schema "zplan.bandwidth/1".
#pragma once

#include <vector>

#include "models/zero_infinity.h"
#include "planner/cli/answer/chosen_plan.h"
#include "planner/cli/bandwidth/sweep.h"
#include "planner/cli/frame/sheet.h"
#include "planner/cost/group_traffic.h"
#include "planner/cost/op_rooflines.h"
#include "planner/cost/tier_traffic.h"
#include "sim/simulate.h"

namespace zplan {

struct Bandwidth {
  ChosenPlan chosen;
  InfinityBatch batch;                  // of a micro-step, as the forms count it
  InfinityIntensities printed, layers;  // the optimizer's over all micro-steps
  double loads = 0, stores = 0;         // of parameters and gradients, per micro-step
  std::vector<TierTraffic> traffic;
  std::vector<GroupTraffic> groups;   // of the stage with the busiest compute lane
  std::vector<OpRoofline> rooflines;  // of the stage with the busiest compute lane
  FlopsPerSecond compute{};           // of that stage's GPUs where nothing else holds them up
  sim::SimResult sim;
  std::vector<Sweep> sweeps;
};

Bandwidth find_bandwidth(ChosenPlan chosen, int threads);

Sheet bandwidth_sheet(const Bandwidth& bandwidth);
// ZeRO-Infinity's Fig. 3 and Table 3.
Sheet paper_sheet();

}  // namespace zplan
