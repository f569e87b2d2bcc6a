// Everything that rules for runs look up, read once.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "hwprofiles/hardware_catalogue.h"
#include "hwprofiles/hw_profile.h"
#include "hwprofiles/measured_runs.h"
#include "hwprofiles/stack.h"
#include "planner/certainty/knowledge.h"

namespace zplan {

struct RunCatalogues {
  HardwareCatalogue hardware = load_hardware_catalogue();
  std::vector<HwProfile> profiles = node_catalogue();
  std::vector<StackProfile> stacks = stack_catalogue();
  MeasuredRuns measured = load_measured_runs();
  // Of the stack that runs of the user's own are of, in place of the published ones.
  std::optional<Evidence> anchored{};

  Evidence evidence_for(const StackProfile& stack) const {
    const bool own = anchored && anchored->stack.name == stack.name;
    return own ? *anchored : evidence_of(stack, measured);
  }
};

}  // namespace zplan
