// ZB-H1: 1F1B with backward in two parts [Qi24 sec 3.1]. The first stage takes the gradients of the
// weights right after those of the input; stage i lags i micro-batches behind with them, which
// fills its drain. No stage has more micro-batches between forward and the last part of backward
// than the first one of 1F1B, and where the three passes take equally long the bubble is a third.
#pragma once

#include "planner/program/schedule/schedule.h"

namespace zplan {

PassOrder zero_bubble_h1_order(std::int32_t stage, std::int32_t stages, std::int32_t micro_batches);
PipelineSchedule zero_bubble_h1(std::int32_t stages, std::int32_t micro_batches);

}  // namespace zplan
