#include "planner/program/schedule/zero_bubble_h1.h"

#include <algorithm>

#include "planner/program/schedule/of_ranks.h"
#include "planner/program/schedule/pass_counter.h"

namespace zplan {

using enum PassKind;

PassOrder zero_bubble_h1_order(std::int32_t stage, std::int32_t stages,
                               std::int32_t micro_batches) {
  PassCounter order(micro_batches);
  const std::int32_t ahead = std::min(stages - 1 - stage, micro_batches);
  for (std::int32_t i = 0; i < ahead; ++i) order.add(kForward, 0);
  order.cut();
  for (std::int32_t i = ahead; i < micro_batches; ++i) {
    order.add(kForward, 0);
    order.add(kInputBackward, 0);
    if (order.added(kInputBackward, 0) > stage) order.add(kWeightBackward, 0);
  }
  order.cut();
  for (std::int32_t i = 0; i < ahead; ++i) order.add_parts(0);
  while (order.added(kWeightBackward, 0) < micro_batches) order.add(kWeightBackward, 0);
  return order.take();
}

PipelineSchedule zero_bubble_h1(std::int32_t stages, std::int32_t micro_batches) {
  return schedule_of_ranks(looped_chunks(stages, 1), micro_batches, [=](std::int32_t rank) {
    return zero_bubble_h1_order(rank, stages, micro_batches);
  });
}

}  // namespace zplan
