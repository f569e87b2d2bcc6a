// Emits the passes of one stage as loops (planner/program/schedule/fold.h). The last backward is
// emitted apart where the order says so (reductions after the last micro-batch).
#pragma once

#include <functional>

#include "planner/lower/stage.h"
#include "planner/program/schedule/schedule.h"

namespace zplan {

// Bodies are emitted inside blocks that bind Var::kMicro to their micro-batch.
struct MicroStep {
  std::function<void()> forward;
  std::function<void(bool last)> backward;
};

void emit_schedule(Stage& stage, const PassOrder& order, const MicroStep& step);

}  // namespace zplan
