// The one line that `zplan bandwidth` begins with: what takes most of the step, and what the tiers
// cost.
#pragma once

#include <string>

#include "planner/cli/bandwidth/bandwidth.h"

namespace zplan {

struct Verdict {
  std::string limit;  // "compute", "CPU - NVMe", "exposed pipeline transfers" ..
  std::string line;
};
Verdict verdict_of(const Bandwidth& found);

}  // namespace zplan
