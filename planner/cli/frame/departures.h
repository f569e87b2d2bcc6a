// In what a plan trains otherwise than plain training does: one rank that takes every gradient at
// once, drops nothing and rounds nothing but to the types of its states. What is not said here
// changes the order of sums only. Runs are checked against one rank that departs in the same way.
#pragma once

#include <string>
#include <vector>

#include "planner/plan/plan.h"

namespace zplan {

std::vector<std::string> departures(const Plan& plan);

}  // namespace zplan
