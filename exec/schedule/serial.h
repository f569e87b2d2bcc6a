// Serial execution (run.h): one operation at a time over all ranks, in a fixed or a drawn order,
// optionally guarded (guard.h).
#pragma once

#include "exec/schedule/rank.h"

namespace zplan::exec {

void run_serial(RunState& state);

}  // namespace zplan::exec
