// Everything that rules for runs look up, read once.
#pragma once

#include <string>
#include <vector>

#include "hwprofiles/hardware_catalogue.h"
#include "hwprofiles/hw_profile.h"
#include "hwprofiles/stack.h"

namespace zplan {

struct RunCatalogues {
  HardwareCatalogue hardware = load_hardware_catalogue();
  std::vector<HwProfile> profiles = node_catalogue();
  std::vector<StackProfile> stacks = stack_catalogue();
};

}  // namespace zplan
