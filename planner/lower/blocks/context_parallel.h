// What context parallel ranks exchange around the core of attention [Jacobs23 sec 3.1]: an
// all-to-all turns a part of every sequence with all heads into whole sequences with a part of the
// heads, before the core, and back behind it; backward does the same with the gradients.
//
//   outside  [b, s/c, n, d]   what every token has for itself: norms and products
//   inside   [b, s, n/c, d]   the core, and the rotation, which begins with position 0 there
//
// Each way is: columns cut into the ranks' parts, the all-to-all, and tokens put in order, a copy
// that one sequence per micro-batch does without. With one rank both sides are one tensor.
#pragma once

#include <string>

#include "planner/lower/blocks/attention_core.h"
#include "planner/lower/blocks/layer_pass.h"
#include "planner/lower/context_axis.h"

namespace zplan {

class ContextParallel {
 public:
  explicit ContextParallel(const Sizes& outside)
      : axis_(exchange_axis(outside.plan)),
        ranks_(outside.plan.exchange_ranks()),
        b_(outside.stretches()),
        tokens_(outside.tokens()),
        cuts_(outside.plan.stretches()) {}

  bool is_alone() const { return ranks_ == 1; }
  // What blocks inside are made with.
  LayerMaker inside(LayerMaker maker) const {
    maker.sequence *= ranks_;
    return maker;
  }
  Heads inside(Heads heads) const {
    heads.queries /= ranks_;
    heads.keys /= ranks_;
    return heads;
  }

  // Columns, which are segments side by side, of which each rank has its part inside.
  struct Columns {
    std::int64_t all = 0;
    std::int64_t first = 0, second = 0;  // widths of segments; the rest is the last one
  };

  // The other side of an inside tensor: itself, or scratch [T, columns].
  View outside(LayerPass& to, const std::string& name, const View& inside,
               const Columns& columns) const {
    return is_alone() ? inside : to.scratch(name, {tokens_, columns.all});
  }
  // The other way round.
  View inside(LayerPass& to, const std::string& name, const View& outside) const {
    if (is_alone()) return outside;
    return to.scratch(name, {tokens_ * ranks_, outside.shape.elements() / tokens_ / ranks_});
  }

  // Whether tokens inside are in the order of their sequences.
  bool in_order() const { return cuts_ == 1 || b_ == cuts_; }
  // The other side of an inside tensor that is in order, or whose stretches lie apart: itself, or
  // scratch.
  View reordered(LayerPass& to, const std::string& name, const View& of) const {
    return in_order() ? of : to.scratch(name, of.shape);
  }
  void put_in_order(LayerPass& to, Part part, const View& apart, const View& ordered) const {
    if (in_order()) return;
    to.kernel(part, Action::kJoin, KernelId::kJoinColumns,
              {read(as(apart, halves(apart))), write(as(ordered, whole(ordered)))});
  }
  void put_apart(LayerPass& to, Part part, const View& ordered, const View& apart) const {
    if (in_order()) return;
    to.kernel(part, Action::kCut, KernelId::kSplitColumns,
              {read(as(ordered, whole(ordered))), write(as(apart, halves(apart)))});
  }

  void to_heads(LayerPass& to, Part part, const View& outside, const View& inside,
                const Columns& columns) const {
    if (is_alone()) return;
    const View sent = to.scratch("exchange.sent", cut(columns));
    to.kernel(part, Action::kPack, KernelId::kSplitColumns,
              {read(as(outside, {tokens_, columns.all})), write(sent)},
              {columns.first, columns.second});
    if (b_ == 1) return to.exchange(part, axis_, sent, inside);
    const View received = to.scratch("exchange.received", by_sequence(columns));
    to.exchange(part, axis_, sent, received);
    to.kernel(part, Action::kUnpack, KernelId::kJoinColumns,
              {read(received), write(as(inside, sequences(columns)))});
  }

  void to_tokens(LayerPass& to, Part part, const View& inside, const View& outside,
                 const Columns& columns) const {
    if (is_alone()) return;
    View sent = inside;
    if (b_ > 1) {
      sent = to.scratch("exchange.sent", by_sequence(columns));
      to.kernel(part, Action::kPack, KernelId::kSplitColumns,
                {read(as(inside, sequences(columns))), write(sent)});
    }
    const View received = to.scratch("exchange.received", cut(columns));
    to.exchange(part, axis_, sent, received);
    to.kernel(part, Action::kUnpack, KernelId::kJoinColumns,
              {read(received), write(as(outside, {tokens_, columns.all}))},
              {columns.first, columns.second});
  }

 private:
  static View as(View view, const Shape& shape) { return view.shape = shape, view; }
  // The rank's tokens, cut by columns; and the same elements inside, by sequence and rank.
  Shape cut(const Columns& columns) const { return {ranks_, tokens_, columns.all / ranks_}; }
  Shape by_sequence(const Columns& columns) const {
    return {ranks_, b_, tokens_ / b_ * columns.all / ranks_};
  }
  Shape sequences(const Columns& columns) const { return {b_, tokens_ / b_ * columns.all}; }

  // Of each stretch, and of the sequences whose stretches follow each other.
  Shape halves(const View& v) const { return {cuts_, b_ / cuts_, v.shape.elements() / b_}; }
  Shape whole(const View& v) const { return {b_ / cuts_, cuts_ * (v.shape.elements() / b_)}; }

  std::string_view axis_;
  std::int64_t ranks_;       // c
  std::int64_t b_, tokens_;  // stretches, T tokens of them
  std::int64_t cuts_;        // stretches of a sequence
};

}  // namespace zplan
