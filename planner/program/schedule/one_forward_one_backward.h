// The orders of a pipeline whose stages hold one chunk each.
//   1F1B   stage i of p runs w = min(p - 1 - i, m) forwards ahead, then alternates forward and
//          backward, then drains [Narayanan21 sec 2.2.1]
//   GPipe  all forwards, then all backwards [Huang19]
#pragma once

#include "planner/program/schedule/schedule.h"

namespace zplan {

PassOrder one_forward_one_backward_order(std::int32_t stage, std::int32_t stages,
                                         std::int32_t micro_batches);
// Orders the passes of one stage: the forward of each micro-batch but the first is beside the
// backward of the one before it. Every other one is reversed.
PassOrder one_stage_in_turns(std::int32_t micro_batches);
PassOrder gpipe_order(std::int32_t micro_batches);

PipelineSchedule one_forward_one_backward(std::int32_t stages, std::int32_t micro_batches);
PipelineSchedule gpipe(std::int32_t stages, std::int32_t micro_batches);

}  // namespace zplan
