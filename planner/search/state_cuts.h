// ZeRO-Offload's question [Ren21 sec 3]: which of parameters, gradients and optimizer states leave
// the GPU for the host, what then crosses between the two in a step, and what it saves. Each of the
// eight ways is a Plan like the one at hand, of one GPU and one micro-step; the bytes are counted
// from its Job: what crosses as tier_traffic counts it, states from the buffers that keep them.
// Unless all stay at least 4 M bytes of M parameters cross, and of the ways with 4 M gradients and
// optimizer states on the host leave least on the GPU, 2 of 16 M [Ren21 secs 3.2, 3.3].
#pragma once

#include <string>
#include <vector>

#include "hwprofiles/hw_profile.h"
#include "models/model_config.h"
#include "planner/plan/plan.h"

namespace zplan {

struct StateCut {
  StatePlacement homes;
  std::string refused;  // why there is no such plan; what follows is 0 then
  double crosses = 0;   // bytes per parameter and step, both ways
  double kept = 0;      // bytes per parameter, of states on the GPU
};

// In the order of what leaves: nothing first, all last.
std::vector<StateCut> state_cuts(const Plan& plan, const ModelConfig& model,
                                 const Cluster& cluster);
// Of those that some state has left for, the one with least traffic that keeps least on the GPU;
// null where there is none.
const StateCut* least_traffic(const std::vector<StateCut>& cuts);

}  // namespace zplan
