// ZB-V: two chunks per rank in the shape of a V, backward in two parts, whose second part fills
// what would be the bubble [Qi24 sec 6]. Where forward and both parts of backward take equally long
// a rank never waits between its first and its last pass; memory is that of 1F1B.
//
// Fewer micro-batches than 2 p - 1 do not fill the pipeline: their order is that of 2 p - 1 without
// those that are missing, as in PyTorch 2.15.
#pragma once

#include "planner/program/schedule/schedule.h"

namespace zplan {

PassOrder zero_bubble_v_order(std::int32_t rank, std::int32_t ranks, std::int32_t micro_batches);
PipelineSchedule zero_bubble_v(std::int32_t ranks, std::int32_t micro_batches);

}  // namespace zplan
