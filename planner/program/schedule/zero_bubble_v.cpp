#include "planner/program/schedule/zero_bubble_v.h"

#include <algorithm>

#include "planner/program/schedule/of_ranks.h"
#include "planner/program/schedule/pass_counter.h"

namespace zplan {
namespace {

using enum PassKind;

void warm_up(PassCounter& order, std::int32_t rank, std::int32_t ranks) {
  for (std::int32_t i = 0; i < 2 * (ranks - rank) - 1; ++i) order.add(kForward, 0);
  for (std::int32_t i = 0; i < rank; ++i) {
    order.add(kForward, 1);
    order.add(kForward, 0);
  }
  for (std::int32_t i = rank; i < ranks; ++i) {
    order.add(kForward, 1);
    order.add_parts(1);
  }
}

void drain(PassCounter& order, std::int32_t rank, std::int32_t ranks) {
  for (std::int32_t i = 0; i < rank; ++i) {
    order.add(kInputBackward, 0);
    order.add(kInputBackward, 1);
  }
  for (std::int32_t i = rank; i < ranks; ++i) order.add_parts(0);
  for (const std::int32_t chunk : {1, 0})
    while (order.added(kWeightBackward, chunk) < order.added(kInputBackward, chunk))
      order.add(kWeightBackward, chunk);
}

}  // namespace

PassOrder zero_bubble_v_order(std::int32_t rank, std::int32_t ranks, std::int32_t micro_batches) {
  const std::int32_t filling = std::max(2 * ranks - 1, micro_batches);
  PassCounter order(micro_batches);
  warm_up(order, rank, ranks);
  order.cut();
  while (order.added(kForward, 1) < filling) {
    if (order.added(kForward, 0) < filling) order.add(kForward, 0);
    order.add_parts(0);
    order.add(kForward, 1);
    order.add_parts(1);
  }
  order.cut();
  drain(order, rank, ranks);
  return order.take();
}

PipelineSchedule zero_bubble_v(std::int32_t ranks, std::int32_t micro_batches) {
  return schedule_of_ranks(v_shaped_chunks(ranks, 2), micro_batches, [=](std::int32_t rank) {
    return zero_bubble_v_order(rank, ranks, micro_batches);
  });
}

}  // namespace zplan
