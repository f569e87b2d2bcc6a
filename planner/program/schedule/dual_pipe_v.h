// DualPipeV: DualPipe [DeepSeek24b sec 3.2.1] with its two directions folded to one copy of the
// model, two chunks per rank in the shape of a V [DualPipe]. Micro-batches enter while others
// leave: a forward and a backward of different micro-batches and chunks come in pairs, so that one
// computes while the other communicates. Only the ends of a step take backward in two parts. Passes
// of a pair follow each other here, forward first; what of them runs at once, the lanes decide.
//
// It takes at least 2 p micro-batches; with fewer no pair is left.
//
// DualPipe itself, of q = 2 p ranks, is a pair of these: rank i and rank q - 1 - i have the same
// two pieces of the model and the same order, the one with micro-batches that enter at rank 0, the
// other with those that enter at rank q - 1. Where the way turns here it goes on to the other one
// there.
#pragma once

#include "planner/program/schedule/schedule.h"

namespace zplan {

constexpr std::int32_t least_of_dual_pipe_v(std::int32_t ranks) { return 2 * ranks; }

// `beside`: a forward and a backward that follow each other as a pair are worked off together.
PassOrder dual_pipe_v_order(std::int32_t rank, std::int32_t ranks, std::int32_t micro_batches,
                            bool beside = false);
PipelineSchedule dual_pipe_v(std::int32_t ranks, std::int32_t micro_batches);

}  // namespace zplan
