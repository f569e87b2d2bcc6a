// The hardware limit: the least time in which the devices of a cluster can do what a step has to
// do, whatever the software and the plan. Nothing but the work itself counts:
//
//   products   flop / the best rate that any product of the model reaches, for 1, 4 or 16 sequences
//              at a time
//   attention  flop / the best rate of its kernel, forward and backward apart, likewise
//   traffic    compulsory bytes of all other kernels / what the memory reaches
//
// each at the rate of the hardware or of the fastest software that is known for it, over as many
// devices as there are. No work is done twice, nothing waits, nothing is communicated, updates are
// free [derived: an update may be done elsewhere, on the host]. So it is a bound for the softwares
// of the catalogue, and no prediction.
#pragma once

#include <optional>
#include <span>

#include "hwprofiles/hw_profile.h"
#include "hwprofiles/stack.h"
#include "models/model_config.h"
#include "planner/plan/plan.h"

namespace zplan {

// Of each factor the least that one of the profiles has on such devices, 1 at most.
StackRates fastest_rates(std::span<const StackProfile> profiles, int capability);

// `plan`: what is trained, in which format, with which batch; its layout does not count. `fastest`:
// of the softwares. Nothing where the model cannot be laid out on one rank.
std::optional<Seconds> hardware_limit(const Plan& plan, const ModelConfig& model,
                                      const Cluster& cluster, const StackRates& fastest);

}  // namespace zplan
