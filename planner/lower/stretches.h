// The stretches of consecutive tokens that a rank has of every sequence: one, or with rings two.
// Of R ranks of a ring place r has the pieces r and 2 R - 1 - r of 2 R: causal attention is as much
// work on each of them [Dubey24 sec 3.3.2]. Ranks that exchange heads have an equal part of either.
//
// A tensor of the rank's tokens has the first stretches of all sequences, then the second ones.
// What depends on positions is done stretch by stretch.
#pragma once

#include <cstdint>

#include "planner/lower/context_axis.h"
#include "planner/lower/stage.h"

namespace zplan {

class Stretches {
 public:
  explicit Stretches(const Stage& stage) : s_(stage), count_(stage.plan.stretches()) {}

  std::int32_t count() const { return count_; }
  // Emits the body once per stretch; those of several have tiles of their own.
  template <typename Emit>
  void each(const Emit& emit) const {
    if (count_ == 1) return emit(0);
    for (std::int32_t i = 0; i < count_; ++i)
      s_.out.repeat({.count = 1, .var = Var::kTile, .first = i}, [&] { emit(i); });
  }
  // Of a tensor of tokens, whose first dimension is that of sequences or of tokens, what stretch i
  // has.
  View part(View all, std::int32_t i) const {
    all.shape.dims[0] /= count_;
    all.offset = all.offset + all.bytes() * i;
    return all;
  }
  // The position of its first token: of the rank's own tokens, or of those that the ranks which
  // exchange heads have together.
  Attribute begin(std::int32_t i) const {
    const std::string_view axis = exchange_axis(s_.plan);
    const std::int64_t own = s_.plan.rank_sequence() / count_;
    Attribute at = begin_together(i);
    const AxisSteps steps = s_.by_place(axis, own).steps;
    for (std::size_t a = 0; a < steps.size(); ++a) at.steps[a] += steps[a];
    return at;
  }
  Attribute begin_together(std::int32_t i) const {
    if (count_ == 1) return {};
    const std::int64_t ring = s_.plan.parallel.ring, piece = s_.plan.batch.sequence / (2 * ring);
    return i == 0 ? s_.by_place(kRingAxis, piece)
                  : Attribute{(2 * ring - 1) * piece, s_.by_place(kRingAxis, -piece).steps};
  }

 private:
  const Stage& s_;
  std::int32_t count_;
};

}  // namespace zplan
