#include "planner/program/schedule/zero_bubble_v.h"

#include <algorithm>
#include <array>

namespace zplan {
namespace {

using enum PassKind;

// Counts the passes of both chunks; those of micro-batches that there are not are passed over.
class Order {
 public:
  explicit Order(std::int32_t micro_batches) : micro_batches_(micro_batches) {}

  void add(PassKind kind, std::int32_t chunk) {
    const std::int32_t micro = next(kind, chunk)++;
    if (micro < micro_batches_) order_.add(kind, chunk, micro);
  }
  void both_parts(std::int32_t chunk) {
    add(kInputBackward, chunk);
    add(kWeightBackward, chunk);
  }
  void cut() { order_.cut(); }
  std::int32_t& next(PassKind kind, std::int32_t chunk) {
    return next_[static_cast<std::size_t>(kind)][static_cast<std::size_t>(chunk)];
  }
  PassOrder take() { return std::move(order_); }

 private:
  std::int32_t micro_batches_;
  std::array<std::array<std::int32_t, 2>, 4> next_{};
  PassOrder order_;
};

void warm_up(Order& order, std::int32_t rank, std::int32_t ranks) {
  for (std::int32_t i = 0; i < 2 * (ranks - rank) - 1; ++i) order.add(kForward, 0);
  for (std::int32_t i = 0; i < rank; ++i) {
    order.add(kForward, 1);
    order.add(kForward, 0);
  }
  for (std::int32_t i = rank; i < ranks; ++i) {
    order.add(kForward, 1);
    order.both_parts(1);
  }
}

void drain(Order& order, std::int32_t rank, std::int32_t ranks) {
  for (std::int32_t i = 0; i < rank; ++i) {
    order.add(kInputBackward, 0);
    order.add(kInputBackward, 1);
  }
  for (std::int32_t i = rank; i < ranks; ++i) order.both_parts(0);
  for (const std::int32_t chunk : {1, 0})
    while (order.next(kWeightBackward, chunk) < order.next(kInputBackward, chunk))
      order.add(kWeightBackward, chunk);
}

}  // namespace

PassOrder zero_bubble_v_order(std::int32_t rank, std::int32_t ranks, std::int32_t micro_batches) {
  const std::int32_t filling = std::max(2 * ranks - 1, micro_batches);
  Order order(micro_batches);
  warm_up(order, rank, ranks);
  order.cut();
  while (order.next(kForward, 1) < filling) {
    if (order.next(kForward, 0) < filling) order.add(kForward, 0);
    order.both_parts(0);
    order.add(kForward, 1);
    order.both_parts(1);
  }
  order.cut();
  drain(order, rank, ranks);
  return order.take();
}

PipelineSchedule zero_bubble_v(std::int32_t ranks, std::int32_t micro_batches) {
  PipelineSchedule schedule{v_shaped_chunks(ranks, 2), micro_batches, {}};
  for (std::int32_t rank = 0; rank < ranks; ++rank)
    schedule.ranks.push_back(zero_bubble_v_order(rank, ranks, micro_batches));
  return schedule;
}

}  // namespace zplan
