// The answer of `zplan export`: a plan as the configuration of a framework, and what that framework
// does otherwise. JSON schema "zplan.export/1".
#pragma once

#include <string>
#include <vector>

#include "planner/cli/foreign/trial.h"
#include "planner/cli/frame/sheet.h"
#include "planner/foreign/frameworks/framework.h"
#include "planner/plan/plan_difference.h"

namespace zplan {

// A decision that the framework does not take from the plan.
struct Dropped {
  DecisionChange change;  // what the plan says, and what is done instead
  Trial alone;            // the plan with that difference only
};

struct Export {
  const Framework* framework = nullptr;
  Setup setup;  // as the framework reads what was written
  std::vector<Dropped> dropped{};
  Trial plan{}, all{};  // as it is, and with all differences
  Trial there{};        // the latter with the framework's kernels and buffers
  std::vector<std::string> files{};
  std::string check{};  // the command that reads the first of them back
};

Sheet export_sheet(const Export& answer);

}  // namespace zplan
