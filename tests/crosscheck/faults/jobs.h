// The Jobs that faults are planted in: small ones of the tiny model, each with a way of its own to
// cut states, batch or layers.
#pragma once

#include <string>
#include <vector>

#include "planner/plan/plan.h"

namespace zplan::seeded {

struct NamedPlan {
  std::string name;
  Plan plan;
};
std::vector<NamedPlan> plans();

}  // namespace zplan::seeded
