// --stack: whose software is planned for, simulated, or taken for that of published runs.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "hwprofiles/hw_profile.h"
#include "hwprofiles/stack.h"
#include "planner/certainty/knowledge.h"
#include "planner/plan/pins.h"
#include "planner/plan/plan.h"
#include "planner/validate/anchoring.h"

namespace zplan {

// By name or path. Only here is it known which decisions and recipes there are: throws Error when
// the stack has others.
StackProfile find_stack(const std::string& name);

// A memory calibration keeps what a size of --measured changed, so that answers can tell it.
struct MemoryCalibration {
  std::string run, stack;
  Bytes measured{}, predicted{};
  MeasuredMemory found;
};

// The stack that is asked for and what is known of it.
struct StackUse {
  bool asked = false;  // else our own, of which nothing needs to be written into a plan
  Evidence evidence;
  std::vector<Anchor> anchors;  // what the runs of --anchor and --measured changed
  std::optional<MemoryCalibration> memory{};
};

// `name`: of --stack; empty: that of the runs in the file `anchor`, by their records; without such
// a file our own.
StackUse find_stack_use(const std::string& name, const std::string& anchor);

// For `validate`: runs of that stack have its rates.
void anchor_catalogues(const StackUse& use, RunCatalogues& catalogues);

// The rates of a stack on the devices of a cluster.
StackRates rates_of(const StackProfile& stack, const Cluster& cluster);

// Returns what a measured run has shown of the stack's memory if the devices are of its class, and
// says on stderr if they are not.
std::optional<MeasuredMemory> measured_for(const StackMemory& memory, const Cluster& cluster);

// For `plan`: the stack's defaults, kernel set and recipe included, become pins where nothing is
// pinned, and the cluster costs what it costs with the stack. Nothing changes where none is asked
// for.
void plan_with_stack(const StackUse& use, Cluster& cluster, Pins& pins);

// For `simulate`: only what operations cost changes; says so where the stack's kernels are others
// than the plan's.
void simulate_with_stack(const StackUse& use, const Plan& plan, Cluster& cluster);

}  // namespace zplan
