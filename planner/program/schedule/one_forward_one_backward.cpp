#include "planner/program/schedule/one_forward_one_backward.h"

#include <algorithm>

#include "planner/program/schedule/of_ranks.h"

namespace zplan {
namespace {

PassOrder room_for(std::int32_t micro_batches) {
  PassOrder order;
  order.passes.reserve(2 * static_cast<std::size_t>(micro_batches));
  return order;
}

}  // namespace

PassOrder one_stage_in_turns(std::int32_t micro_batches) {
  PassOrder order = room_for(micro_batches);
  order.add(PassKind::kForward, 0, 0);
  order.cut();
  for (std::int32_t i = 1; i < micro_batches; ++i)
    order.add_both({.kind = PassKind::kForward, .micro = i, .reversed = i % 2 == 1},
                   {.kind = PassKind::kBackward, .micro = i - 1, .reversed = i % 2 == 0});
  order.cut();
  order.add(PassKind::kBackward, 0, micro_batches - 1);
  order.passes.back().reversed = micro_batches % 2 == 0;
  return order;
}

PassOrder one_forward_one_backward_order(std::int32_t stage, std::int32_t stages,
                                         std::int32_t micro_batches) {
  PassOrder order = room_for(micro_batches);
  const std::int32_t ahead = std::min(stages - 1 - stage, micro_batches);
  for (std::int32_t i = 0; i < ahead; ++i) order.add(PassKind::kForward, 0, i);
  order.cut();
  for (std::int32_t i = ahead; i < micro_batches; ++i) {
    order.add(PassKind::kForward, 0, i);
    order.add(PassKind::kBackward, 0, i - ahead);
  }
  order.cut();
  for (std::int32_t i = micro_batches - ahead; i < micro_batches; ++i)
    order.add(PassKind::kBackward, 0, i);
  return order;
}

PassOrder gpipe_order(std::int32_t micro_batches) {
  PassOrder order = room_for(micro_batches);
  for (std::int32_t i = 0; i < micro_batches; ++i) order.add(PassKind::kForward, 0, i);
  order.cut();
  for (std::int32_t i = 0; i < micro_batches; ++i) order.add(PassKind::kBackward, 0, i);
  return order;
}

PipelineSchedule one_forward_one_backward(std::int32_t stages, std::int32_t micro_batches) {
  return schedule_of_ranks(looped_chunks(stages, 1), micro_batches, [=](std::int32_t rank) {
    return one_forward_one_backward_order(rank, stages, micro_batches);
  });
}

PipelineSchedule gpipe(std::int32_t stages, std::int32_t micro_batches) {
  const PassOrder order = gpipe_order(micro_batches);
  return {looped_chunks(stages, 1), micro_batches,
          std::vector<PassOrder>(static_cast<std::size_t>(stages), order)};
}

}  // namespace zplan
