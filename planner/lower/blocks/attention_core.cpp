#include "planner/lower/blocks/attention_core.h"

#include "planner/lower/context_axis.h"

namespace zplan {
namespace {

// Parts of sequences that attention sees by themselves are as many sequences to it.
std::int64_t sequences_of(const Sizes& sizes) { return sizes.b() * sizes.attention_parts; }
std::int64_t seen_tokens(const Sizes& sizes) { return sizes.s() / sizes.attention_parts; }

}  // namespace

AttentionCore::AttentionCore(LayerMaker& m, const Heads& heads, const AttentionScores& scores)
    : by_group_{sequences_of(m), seen_tokens(m), heads.keys, heads.width() / heads.keys},
      by_head_{sequences_of(m), seen_tokens(m), heads.queries, heads.value_size},
      squares_{sequences_of(m), heads.queries, seen_tokens(m), seen_tokens(m)},
      value_size_(heads.value_size),
      queries_(heads.queries),
      exchange_axis_(exchange_axis(m.plan)),
      ranks_(m.plan.exchange_ranks()),
      tiles_(m.tiles()),
      scores_(scores),
      fused_(m.kernels.fused_attention || scores.chosen),
      dropout_(m.plan.dropout) {
  const auto add = [&](const char* name, const Shape& shape, DType dtype, Life life) {
    return m.values.add({name, shape, dtype, LayerOperator::kAttention, true, life});
  };
  // Context parallel ranks hand it on; then a fused backward alone reads it.
  const bool is_read = fused_ || m.plan.exchange_ranks() == 1;
  if (m.plan.parallel.ring > 1) ring_.emplace(m, heads);
  out_ = m.values.add({.name = "attention",
                       .shape = {m.tokens(), heads.out_width()},
                       .dtype = m.compute(),
                       .of = LayerOperator::kAttention,
                       .tiled = true,
                       .in_backward = is_read ? Read::kLate : Read::kNever});
  if (scores_.sinks) {
    const std::int64_t all = queries_ * ranks_ * m.pieces();
    sinks_ = m.params.add({m.naming.of("sinks", ""),
                           {all},
                           {all},
                           Init::kZero,
                           0,
                           false,
                           {Split::Kind::kColumns, {all}}});
  }
  if (fused_) {
    lse_ = add("lse", {sequences_of(m), heads.queries, seen_tokens(m)}, m.kernels.statistics,
               Life::kBackward);
    return;
  }
  if (scores_.cap > 0) uncapped_ = add("scores", squares_, m.compute(), Life::kSelective);
  dropped_ = probs_ = add("probs", squares_, m.compute(), Life::kSelective);
  if (!dropout_) return;
  mask_ = add("probs.mask", squares_, DType::kU8, Life::kSelective);
  dropped_ = add("probs.dropped", squares_, m.compute(), Life::kSelective);
}

View AttentionCore::by_group(View qkv) const {
  qkv.shape = by_group_;
  return qkv;
}

View AttentionCore::by_head(View out) const {
  out.shape = by_head_;
  return out;
}

std::int64_t AttentionCore::window(const LayerPass& to) const {
  const auto turns = static_cast<std::int64_t>(scores_.windows.size());
  return scores_.windows[static_cast<std::size_t>(to.layer() % turns)];
}

// The rank's first head, of its first tile.
Attribute AttentionCore::first_head(const LayerPass& to) const {
  Attribute first = to.by_place(kTensorAxis, heads_per_tile() * tiles_);
  const AxisSteps inside = to.by_place(exchange_axis_, queries_).steps;
  for (std::size_t axis = 0; axis < inside.size(); ++axis) first.steps[axis] += inside[axis];
  return first;
}

Attributes AttentionCore::attributes(const LayerPass& to) const {
  Attributes all{window(to), scores_.cap, scores_.divisor, scores_.slopes};
  all[5] = scores_.both_ways ? 1 : 0;
  if (scores_.slopes == 0) return all;
  all[4] = first_head(to);
  all[6] = tiles_ > 1 ? heads_per_tile() : 0;
  return all;
}

Attributes AttentionCore::softmax_attributes(const LayerPass& to) const {
  const Attributes all = attributes(to);
  return {all[0], all[3], all[4], all[5], all[6]};
}

Attributes AttentionCore::drawn_heads(const LayerPass& to) const {
  Attributes drawn = to.drawn_sequences();
  drawn[6] = first_head(to);
  drawn[7] = tiles_ > 1 ? heads_per_tile() : 0;
  return drawn;
}

// Those of the heads that a context parallel rank has.
View AttentionCore::own_sinks(const LayerPass& to, View all) const {
  all.shape = {queries_};
  all.strides = to.by_place(exchange_axis_, all.bytes().value).steps;
  return all;
}

View AttentionCore::sinks_gradient(LayerPass& to) const {
  const View all = to.gradient(sinks_);
  View own = own_sinks(to, all);
  if (ranks_ == 1 || all.access == Access::kUpdate) return own;
  to.kernel(Part::kSinks, Action::kZero, KernelId::kFillZero, {all});
  return update(own);
}

void AttentionCore::probabilities(LayerPass& to, const View& qkv) const {
  to.kernel(Part::kScores, KernelId::kAttentionScores,
            {read(by_group(qkv)), write(to[uncapped_ ? uncapped_ : probs_]), to.workspace()},
            {value_size_, scores_.divisor});
  if (uncapped_)
    to.kernel(Part::kScoreCap, KernelId::kSoftCapForward, {read(to[uncapped_]), write(to[probs_])},
              {scores_.cap});
  if (scores_.biased)
    to.kernel(Part::kScores, Action::kAccumulate, KernelId::kRelativeScores,
              {update(to[probs_]), to.position_bias()});
  const Attributes seen = softmax_attributes(to);
  if (sinks_) {
    to.kernel(Part::kSoftmax, KernelId::kSoftmaxForward,
              {update(to[probs_]), own_sinks(to, to.parameter(sinks_))}, seen);
  } else {
    to.kernel(Part::kSoftmax, KernelId::kSoftmaxForward, {update(to[probs_])}, seen);
  }
  if (dropout_)
    to.kernel(Part::kSoftmax, Action::kDrop, KernelId::kDropoutForward,
              {read(to[probs_]), write(to[mask_]), write(to[dropped_])}, drawn_heads(to));
}

void AttentionCore::forward(LayerPass& to, const View& qkv) const {
  if (!to.emits(LayerOperator::kAttention)) return;
  const View out = write(by_head(to[out_]));
  if (ring_) return ring_->forward(to, by_group(qkv), out, to[lse_]);
  if (scores_.chosen)
    return to.kernel(
        Part::kAttention, KernelId::kChosenAttentionForward,
        {read(by_group(qkv)), read(to[scores_.chosen]), out, write(to[lse_]), to.workspace()});
  if (fused_ && scores_.biased)
    return to.kernel(
        Part::kAttention, KernelId::kBiasedAttentionForward,
        {read(by_group(qkv)), to.position_bias(), out, write(to[lse_]), to.workspace()},
        attributes(to));
  if (fused_) {
    to.kernel(Part::kAttention, KernelId::kAttentionForward,
              {read(by_group(qkv)), out, write(to[lse_]), to.workspace()}, attributes(to));
    if (sinks_)
      to.kernel(Part::kSinks, KernelId::kSinksForward,
                {update(out), update(to[lse_]), own_sinks(to, to.parameter(sinks_))});
    return;
  }
  probabilities(to, qkv);
  to.kernel(Part::kAttention, KernelId::kAttentionContext,
            {read(to[dropped_]), read(by_group(qkv)), out, to.workspace()});
}

void AttentionCore::replay(LayerPass& to, const View& qkv) const {
  if (to.replays_selectively() && to.emits_inputs()) to.again([&] { probabilities(to, qkv); });
}

void AttentionCore::backward(LayerPass& to, const View& qkv, const View& dattention,
                             const View& dqkv) const {
  if (!to.emits_inputs()) return;
  const View dout = read(by_head(dattention));
  if (ring_)
    return ring_->backward(to, dout, by_group(qkv), by_head(to[out_]), to[lse_], by_group(dqkv));
  if (!fused_) return backward_unfused(to, qkv, dout, dqkv);
  if (scores_.chosen)
    return to.kernel(Part::kAttention, KernelId::kChosenAttentionBackward,
                     {dout, read(by_group(qkv)), read(to[scores_.chosen]), read(by_head(to[out_])),
                      read(to[lse_]), write(by_group(dqkv)), to.workspace()});
  if (scores_.biased)
    return to.kernel(
        Part::kAttention, KernelId::kBiasedAttentionBackward,
        {dout, read(by_group(qkv)), to.position_bias(), read(by_head(to[out_])), read(to[lse_]),
         write(by_group(dqkv)), to.position_bias_gradient(), to.workspace()},
        attributes(to));
  if (sinks_) {
    const View sinks = own_sinks(to, to.parameter(sinks_));
    to.kernel(
        Part::kSinks, KernelId::kSinksBackward,
        {dout, read(by_head(to[out_])), read(to[lse_]), sinks, sinks_gradient(to), to.workspace()});
  }
  to.kernel(Part::kAttention, KernelId::kAttentionBackward,
            {dout, read(by_group(qkv)), read(by_head(to[out_])), read(to[lse_]),
             write(by_group(dqkv)), to.workspace()},
            attributes(to));
}

void AttentionCore::shares(LayerPass& to, const View& qkv, const View& given) const {
  to.kernel(Part::kIndex, Action::kAccumulate, KernelId::kChosenShares,
            {read(by_group(qkv)), read(to[scores_.chosen]), read(to[lse_]), to.add_tiles(given)},
            {value_size_});
}

void AttentionCore::backward_unfused(LayerPass& to, const View& qkv, const View& dout,
                                     const View& dqkv) const {
  const View dprobs = to.scratch("d.probs", squares_);
  const View ddropped = dropout_ ? to.scratch("d.dropped", squares_) : dprobs;
  to.kernel(Part::kAttention, KernelId::kAttentionContextGradient,
            {dout, read(by_group(qkv)), write(ddropped), to.workspace()});
  if (dropout_)
    to.kernel(Part::kSoftmax, Action::kDrop, KernelId::kDropoutBackward,
              {read(ddropped), read(to[mask_]), write(dprobs)});
  const Attributes seen{scores_.both_ways ? 1 : 0};
  if (sinks_) {
    to.kernel(Part::kSoftmax, KernelId::kSoftmaxBackward,
              {read(to[probs_]), update(dprobs), sinks_gradient(to)}, seen);
  } else {
    to.kernel(Part::kSoftmax, KernelId::kSoftmaxBackward, {read(to[probs_]), update(dprobs)}, seen);
  }
  if (scores_.biased)
    to.kernel(Part::kScores, Action::kBiasGradient, KernelId::kRelativeScoresGradient,
              {read(dprobs), to.position_bias_gradient()});
  if (uncapped_)
    to.kernel(Part::kScoreCap, KernelId::kSoftCapBackward, {read(to[uncapped_]), update(dprobs)},
              {scores_.cap});
  to.kernel(Part::kScores, KernelId::kAttentionScoresGradient,
            {read(dprobs), read(to[dropped_]), dout, read(by_group(qkv)), write(by_group(dqkv)),
             to.workspace()},
            {scores_.divisor});
}

}  // namespace zplan
