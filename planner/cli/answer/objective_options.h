// The options of --objective, of the subcommands that find a plan.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>

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

// Adds the objective, and what the answer counts for a whole run: tokens and a price.
void add_objective(Syntax& syntax, PlanCommand& command);
// These add --tokens of the whole run and --price of a GPU-hour, which any subcommand reads in this
// form. What is not given leaves the target as it is.
void add_tokens(Syntax& syntax, const std::string& help, double& tokens);
void add_price(Syntax& syntax, const std::string& help, double& price);
// Throws Error where --tokens or --price are given to a subcommand whose answer counts with them
// only beside the objective cheapest.
void require_cheapest(const PlanCommand& command);
// Returns a number above 0 with one of the units; throws Error where the word is none.
double above_zero(std::string_view option, const std::string& word, std::string_view example,
                  std::initializer_list<std::pair<std::string_view, double>> units);

// Throws Error, one line, where options contradict the objective. The objective cheapest counts
// with the tokens and the price, too.
void check_objective(PlanCommand& command);

}  // namespace zplan
