// What leaves the GPU and what crosses, of each way to put model states on GPU and host
// (planner/search/state_cuts.h). JSON schema "zplan.state_cuts/1".
#pragma once

#include "planner/cli/frame/sheet.h"
#include "planner/search/state_cuts.h"

namespace zplan {

Sheet state_cuts_sheet(const Plan& plan, const ModelConfig& model, const Cluster& cluster);

}  // namespace zplan
