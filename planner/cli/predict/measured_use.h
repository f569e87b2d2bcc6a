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

// Nothing changes where nothing was measured. Throws Error where no run of the plan can have had
// that number.
void learn_measured(const Measured& measured, const MeasuredPlan& plan, StackUse& use);
// Of the plan in a file, on the cluster that it names.
void learn_measured_file(const Measured& measured, const std::string& path, StackUse& use);
// Of --of, else of the one plan that the pins leave. `pins` as typed, with the constraints;
// `cluster` as asked for.
void learn_measured_of_question(const PlanCommand& question, const Pins& pins,
                                const ModelConfig& model, const Cluster& cluster, StackUse& use);

// The cluster costs and holds what was learnt since it got the stack's rates.
void take_over(const StackUse& use, Cluster& cluster);

}  // namespace zplan
