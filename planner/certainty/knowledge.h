// Knowledge: how sure one is of the constants that a predicted time rests on (reliance.h), and of
// what they leave open. All of it is in logarithms of time, one standard deviation.
//
//   constants   x_k = log(true / assumed) of each. A fitted rate has the uncertainty and the
//               correlations of its fit; one that nobody measured the spread of its kind over
//               stacks (hwprofiles/stack.h). Where the stack is assumed to be as fast as the
//               hardware (our own), x_k = |z| s: it can only be slower. Kernels of our own stack
//               that `calibrate` measured on this device have none of it
//   hardware    what a device and its links reach, where no run of the stack was on this device:
//               by the source of the profile's figures
//   overall     x of StackRates::overall, the same for all runs of one stack on one cluster: what no
//               other constant explains
//   run         e, of each run alone
// log(true time / predicted) = sum_k elasticity_k x_k + e.
#pragma once

#include <string>
#include <vector>

#include "hwprofiles/hw_profile.h"
#include "hwprofiles/measured_runs.h"
#include "hwprofiles/stack.h"
#include "planner/certainty/kind.h"

namespace zplan {

struct Knowledge {
  std::vector<double> mean;                     // by Constant
  std::vector<std::vector<double>> covariance;  // by Constant, without what is one-sided
  std::vector<double> slower;                   // s of the one-sided ones; 0: none
  double run_sd = 0;
  // What no published run of the stack speaks for, in words; each has widened the knowledge.
  std::vector<std::string> unknown;
};

// `runs`: of the stack; nullptr: none was ever measured.
Knowledge knowledge_of(const StackProfile& stack, const MeasuredStack* runs, const HwProfile& node,
                       const Kind& kind);

}  // namespace zplan
