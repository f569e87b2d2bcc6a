// --for: whose software is planned for, simulated, or taken for that of published runs.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "hwprofiles/hw_profile.h"
#include "hwprofiles/stack.h"
#include "models/model_config.h"
#include "planner/certainty/knowledge.h"
#include "planner/cli/frame/plan_file.h"
#include "planner/plan/pins.h"
#include "planner/plan/plan.h"
#include "planner/validate/anchoring.h"

namespace zplan {

// By name or path. Only here is it known which decisions and recipes there are: throws Error when
// the stack has others.
StackProfile find_stack(const std::string& name, int capability = 0);

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
  std::string calibration{};    // the file of --anchor
  std::optional<MemoryCalibration> memory{};
};

// `name`: of --for; empty: that of the runs in the file `anchor`, by their records; without such
// a file our own. `cluster`: whose devices decide which profile of the name it is; null: the
// newest.
StackUse find_stack_use(const std::string& name, const std::string& anchor,
                        const Cluster* cluster = nullptr);

// The software that a plan of a file is predicted with: that of --for, `name`, else the one that
// the file keeps, with its calibration run. Says on stderr when the option replaces what the file
// keeps.
StackUse software_of(const ReadPlan& read, const std::string& name, const std::string& anchor,
                     const Cluster& cluster);

// For `validate`: runs of that stack have its rates.
void anchor_catalogues(const StackUse& use, RunCatalogues& catalogues);

// The rates of a stack on the devices of a cluster.
StackRates rates_of(const StackProfile& stack, const Cluster& cluster);

// Returns what a measured run has shown of the stack's memory if the devices are of its class, and
// says on stderr if they are not.
std::optional<MeasuredMemory> measured_for(const StackMemory& memory, const Cluster& cluster);

// Pins the kernel set of the devices with such products where they were asked for in place of
// recipes. Throws Error where the devices have none.
void pin_product_format(const HwProfile& node, Pins& pins);

// For `plan`: the stack's defaults, kernel set and recipe included, become pins where nothing is
// pinned, and the cluster costs what it costs with the stack. Nothing changes where none is asked
// for.
void plan_with_stack(const StackUse& use, Cluster& cluster, Pins& pins);

// The same, and only plans that the software can run (planner/software/software_plans.h).
void plan_for_software(const StackUse& use, const ModelConfig& model, Cluster& cluster, Pins& pins);

// For `simulate`: only what operations cost changes; says so where the stack's kernels are others
// than the plan's.
void simulate_with_stack(const StackUse& use, const Plan& plan, Cluster& cluster);

}  // namespace zplan
