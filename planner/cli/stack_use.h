// --stack: whose software is planned for, simulated, or taken for that of published runs.
#pragma once

#include <string>

#include "hwprofiles/hw_profile.h"
#include "hwprofiles/stack.h"
#include "planner/plan/pins.h"
#include "planner/plan/plan.h"

namespace zplan {

// By name or path. Only here is it known which decisions and recipes there are: throws Error when
// the stack has others.
StackProfile find_stack(const std::string& name);

// For `plan`: the stack's defaults, kernel set and recipe included, become pins where nothing is
// pinned, and the cluster costs what it costs with the stack. Nothing changes where `name` is
// empty.
void plan_with_stack(const std::string& name, Cluster& cluster, Pins& pins);

// For `simulate`: only what operations cost changes; says so where the stack's kernels are others
// than the plan's.
void simulate_with_stack(const std::string& name, const Plan& plan, Cluster& cluster);

}  // namespace zplan
