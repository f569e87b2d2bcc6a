// Emits the passes of one stage as loops (planner/program/schedule/fold.h). Those that do more than
// their like are emitted apart: reductions after the last micro-batch.
#pragma once

#include <functional>

#include "planner/lower/program_builder.h"
#include "planner/program/schedule/schedule.h"

namespace zplan {

// `emit` is called inside blocks that bind Var::kMicro to the micro-batch of the pass.
void emit_passes(ProgramBuilder& out, const PassOrder& order,
                 const std::function<void(const Pass&)>& emit);

}  // namespace zplan
