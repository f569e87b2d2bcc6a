// The options of --objective, of the subcommands that find a plan.
#pragma once

#include "planner/cli/frame/options.h"
#include "planner/cli/frame/syntax.h"

namespace zplan {

// A line for each, of a help.
inline constexpr const char* kObjectivesHelp =
    "\nObjectives:\n"
    "  fastest           the shortest step, on all GPUs of the cluster\n"
    "  cheapest          the fewest GPU-hours a step, over numbers of GPUs up to the cluster's\n"
    "  fewest-gpus       the fastest on the fewest GPUs on which any plan fits\n"
    "  longest-sequence  the fastest with the longest sequence with which any plan fits\n"
    "  most-headroom     the most GPU memory left, of those --within 10% of the fastest found\n";

void add_objective(Syntax& syntax, PlanCommand& command);
// Throws Error, one line, where options contradict the objective.
void check_objective(const PlanCommand& command);

}  // namespace zplan
