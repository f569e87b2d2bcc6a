#include "planner/program/schedule/weight_stashing.h"

#include <algorithm>

namespace zplan {

std::int32_t stash_slots(std::int32_t stage, std::int32_t stages, std::int32_t micro_batches) {
  const std::int32_t older = updates_behind(stage, stages);
  return older == 0 ? 0 : slots_across_steps(older, micro_batches);
}

PassOrder one_by_one_order(std::int32_t chunks, std::int32_t micro_batches) {
  PassOrder order;
  for (std::int32_t micro = 0; micro < micro_batches; ++micro) {
    for (std::int32_t chunk = 0; chunk < chunks; ++chunk)
      order.add(PassKind::kForward, chunk, micro);
    for (std::int32_t chunk = chunks; chunk-- > 0;) order.add(PassKind::kBackward, chunk, micro);
  }
  return order;
}

std::int32_t gradient_slots(std::int32_t chunks, std::int32_t micro_batches) {
  std::int32_t slots = std::min(chunks, micro_batches);
  while (micro_batches % slots != 0) ++slots;
  return slots;
}

}  // namespace zplan
