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
//   overall     x of StackRates::overall, the same for all runs of one stack on one cluster: what
//               the others do not explain. Wider by what differs between software where no run of
//               the stack was on this class of devices, or nobody said that the stack is the run's
//   run         e, of each run alone
// log(true time / predicted) = sum_k elasticity_k x_k + e.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "hwprofiles/hw_profile.h"
#include "hwprofiles/measured_runs.h"
#include "hwprofiles/stack.h"
#include "planner/certainty/kind.h"
#include "planner/cost/reliance.h"

namespace zplan {

// Every constant is known exactly, unless something else is put in.
struct Knowledge {
  using Row = std::vector<double>;  // by Constant
  Row mean = Row(constant_count());
  std::vector<Row> covariance =  // without what is one-sided
      std::vector<Row>(constant_count(), Row(constant_count()));
  Row slower = Row(constant_count());  // s of the one-sided ones; 0: none
  double run_sd = 0;
  // What no published run of the stack speaks for, in words; each has widened the knowledge.
  std::vector<std::string> unknown;
};

// A stack and what speaks for its rates.
struct Evidence {
  StackProfile stack;
  bool stated = true;  // that the runs asked about are of this stack; else it is a guess
  std::vector<MeasuredStack> runs{};  // by kind of device; empty: none was ever measured
  // By rate, once runs of the user's own are known (anchor.h); else from the stack's file.
  std::optional<std::vector<std::vector<double>>> covariance{};
};
Evidence evidence_of(const StackProfile& stack, const MeasuredRuns& runs);
// What speaks for a run on this device: the runs that were on it, else all of the stack together.
std::optional<MeasuredStack> runs_for(const Evidence& evidence, const std::string& device);

// Whether the stack has no figures but facts of the software: ours, as fast as the hardware until
// it is measured.
bool is_ideal(const StackProfile& stack);

Knowledge knowledge_of(const Evidence& evidence, const HwProfile& node, const Kind& kind);

// Whether `zplan calibrate` measured such times on the device of the node.
bool is_calibrated(const HwProfile& node, HardwareTime kind);

// A constant as its file or profile gives it, and where how well it is known comes from: "1.08,
// fitted: ..", "5 us, assumed: ..".
std::string source_of(Constant constant, const Evidence& evidence, const HwProfile& node);

// With normal constants of the same mean and variance in place of the one-sided ones.
Knowledge with_normal_constants(Knowledge knowledge);

}  // namespace zplan
