// A record of either form as one of "zplan.runs/2": what the first form says in words of its source
// is said by keys, the software among it, so that both have the same plan.
#pragma once

#include "planner/validate/catalogues.h"
#include "planner/validate/runs.h"

namespace zplan {

RunRecord converted(RunRecord run, const RunCatalogues& catalogues);

}  // namespace zplan
