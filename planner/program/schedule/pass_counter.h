// Makes an order of passes whose micro-batches come one after the other, by kind of pass and chunk.
#pragma once

#include <map>
#include <utility>

#include "planner/program/schedule/schedule.h"

namespace zplan {

class PassCounter {
 public:
  // Passes of micro-batches that there are not are counted and left out.
  explicit PassCounter(std::int32_t micro_batches) : micro_batches_(micro_batches) {}

  // The next pass of this kind; a whole backward counts as both of its parts.
  void add(PassKind kind, std::int32_t chunk) {
    const bool whole = kind == PassKind::kBackward;
    const std::int32_t micro = next_[{whole ? PassKind::kInputBackward : kind, chunk}]++;
    if (whole) ++next_[{PassKind::kWeightBackward, chunk}];
    if (micro < micro_batches_) order_.add(kind, chunk, micro);
  }
  // A forward and a whole backward, beside each other where both are there.
  void add_both(std::int32_t forward, std::int32_t backward, bool beside) {
    const std::size_t before = order_.passes.size();
    add(PassKind::kForward, forward);
    add(PassKind::kBackward, backward);
    if (order_.passes.size() == before + 2) order_.passes[before].beside = beside;
  }
  // Backward in two passes, one right after the other.
  void add_parts(std::int32_t chunk) {
    add(PassKind::kInputBackward, chunk);
    add(PassKind::kWeightBackward, chunk);
  }
  void cut() { order_.cut(); }
  std::int32_t added(PassKind kind, std::int32_t chunk) { return next_[{kind, chunk}]; }
  PassOrder take() { return std::move(order_); }

 private:
  std::int32_t micro_batches_;
  std::map<std::pair<PassKind, std::int32_t>, std::int32_t> next_;
  PassOrder order_;
};

}  // namespace zplan
