// Emits the passes of one stage as loops (planner/program/schedule/fold.h). Those that do more than
// their like are emitted apart: reductions after the last micro-batch.
#pragma once

#include <functional>

#include "planner/lower/program_builder.h"
#include "planner/program/schedule/schedule.h"

namespace zplan {

using EmitPass = std::function<void(const Pass&)>;
using EmitBoth = std::function<void(const Pass& forward, const Pass& backward)>;

// Emits with the variable of a micro-batch so much ahead of that of the block.
void at_micro(ProgramBuilder& out, std::int32_t ahead, const std::function<void()>& emit);

// `emit` is called inside blocks that bind Var::kMicro to the micro-batch of the pass, `emit_both`
// with a forward and the backward that is beside it where the micro-batches of both count from that
// of the block.
void emit_passes(ProgramBuilder& out, const PassOrder& order, const EmitPass& emit,
                 const EmitBoth& emit_both);

}  // namespace zplan
