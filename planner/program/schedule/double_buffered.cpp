#include "planner/program/schedule/double_buffered.h"

#include <algorithm>

namespace zplan {

PassOrder double_buffered_order(std::int32_t stage, std::int32_t stages,
                                std::int32_t micro_batches) {
  const std::int32_t before = pairs_before_update(stage, stages);
  PassOrder order;
  order.passes.reserve(2 * static_cast<std::size_t>(micro_batches));
  for (std::int32_t i = 0; i < micro_batches; ++i) {
    if (i == before && i > 0) order.cut();
    order.add(PassKind::kForward, 0, i);
    order.add(PassKind::kBackward, 0, i < before ? micro_batches - before + i : i - before);
    order.passes.back().apart = order.passes.back().micro == micro_batches - 1;
  }
  return order;
}

// [derived] The slots of one step are taken again by the next. With a rest of r micro-batches the
// last of the step in the first r slots come r before the next ones there, so r must be none or as
// many as are in turn.
std::int32_t slots_across_steps(std::int32_t in_turn, std::int32_t micro_batches) {
  std::int32_t slots = std::min(in_turn, micro_batches);
  while (micro_batches % slots != 0 && micro_batches % slots < in_turn) ++slots;
  return slots;
}

InFlight double_buffered_in_flight(std::int32_t stage, std::int32_t stages,
                                   std::int32_t micro_batches) {
  const std::int32_t most = pairs_before_update(stage, stages) + 1;
  return {most, slots_across_steps(most, micro_batches)};
}

}  // namespace zplan
