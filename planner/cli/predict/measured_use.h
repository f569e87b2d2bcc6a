// --measured: a number that a user measured of one plan's run (planner/validate/measured.h) moves
// what is known of the software before anything is predicted with it, as a calibration run does
// without a file of it.
//
//   a speed   becomes a step time; the rates of the stack move as by a run (certainty/anchor.h)
//   a size    becomes an offset of what the stack holds (hwprofiles/stack_memory.h), on devices of
//             the same class alone
//
// Which plan was measured: the one of --of. Without it a subcommand that is given one plan means
// that. `plan` is given none: it takes the plan that its pins leave and, where they leave several,
// refuses, since neither the best plan nor a software's default is known to be what was run.
#pragma once

#include <string>

#include "planner/cli/frame/options.h"
#include "planner/cli/predict/prediction.h"
#include "planner/cli/predict/stack_use.h"

namespace zplan {

struct MeasuredPlan {
  std::string name;  // as it is told, "plan.json"
  const PlannedJob& planned;
  const Cluster& cluster;  // with the rates of the stack, as it was when it ran
};

// This changes nothing if nothing was measured. It throws Error if no run of the plan can have had
// that number.
void learn_measured(const Measured& measured, const MeasuredPlan& plan, StackUse& use);
// The plan is read from a file and ran on the cluster that it names.
void learn_measured_file(const Measured& measured, const std::string& path, StackUse& use);
// The plan is that of --of, else the one that the pins leave. `pins` are as typed, with the
// constraints; `cluster` is as asked for.
void learn_measured_of_question(const PlanCommand& question, const Pins& pins,
                                const ModelConfig& model, const Cluster& cluster, StackUse& use);

// The cluster costs and holds what was learnt since it got the stack's rates.
void take_over(const StackUse& use, Cluster& cluster);

}  // namespace zplan
