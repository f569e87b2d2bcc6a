// DualPipeV: DualPipe [DeepSeek24b sec 3.2.1] with its two directions folded to one copy of the
// model, two chunks per rank in the shape of a V [DualPipe]. Micro-batches enter while others
// leave: a forward and a backward of different micro-batches and chunks come in pairs, so that one
// computes while the other communicates. Only the ends of a step take backward in two parts. Passes
// of a pair follow each other here, forward first; what of them runs at once, the lanes decide.
//
// It takes at least 2 p micro-batches; with fewer no pair is left.
#pragma once

#include "planner/program/schedule/schedule.h"

namespace zplan {

constexpr std::int32_t least_of_dual_pipe_v(std::int32_t ranks) { return 2 * ranks; }

PassOrder dual_pipe_v_order(std::int32_t rank, std::int32_t ranks, std::int32_t micro_batches);
PipelineSchedule dual_pipe_v(std::int32_t ranks, std::int32_t micro_batches);

}  // namespace zplan
