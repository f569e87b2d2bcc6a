#include "planner/lower/blocks/attention_core.h"

namespace zplan {

AttentionCore::AttentionCore(LayerMaker& m, const Heads& heads)
    : by_group_{m.b(), m.s(), heads.keys, heads.width() / heads.keys},
      by_head_{m.b(), m.s(), heads.queries, heads.value_size},
      squares_{m.b(), heads.queries, m.s(), m.s()},
      value_size_(heads.value_size),
      fused_(m.kernels.fused_attention),
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
  if (fused_) {
    lse_ = add("lse", {m.b(), heads.queries, m.s()}, m.kernels.statistics, Life::kBackward);
    return;
  }
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

void AttentionCore::probabilities(LayerPass& to, const View& qkv) const {
  to.kernel(Part::kScores, KernelId::kAttentionScores,
            {read(by_group(qkv)), write(to[probs_]), to.workspace()}, {value_size_});
  to.kernel(Part::kSoftmax, KernelId::kSoftmaxForward, {update(to[probs_])});
  if (dropout_)
    to.kernel(Part::kSoftmax, Action::kDrop, KernelId::kDropoutForward,
              {read(to[probs_]), write(to[mask_]), write(to[dropped_])});
}

void AttentionCore::forward(LayerPass& to, const View& qkv) const {
  if (!to.emits(LayerOperator::kAttention)) return;
  const View out = write(by_head(to[out_]));
  if (ring_) return ring_->forward(to, by_group(qkv), out, to[lse_]);
  if (fused_) {
    to.kernel(Part::kAttention, KernelId::kAttentionForward,
              {read(by_group(qkv)), out, write(to[lse_]), to.workspace()});
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
  to.kernel(Part::kAttention, KernelId::kAttentionBackward,
            {dout, read(by_group(qkv)), read(by_head(to[out_])), read(to[lse_]),
             write(by_group(dqkv)), to.workspace()});
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
  to.kernel(Part::kSoftmax, KernelId::kSoftmaxBackward, {read(to[probs_]), update(dprobs)});
  to.kernel(Part::kScores, KernelId::kAttentionScoresGradient,
            {read(dprobs), read(to[dropped_]), dout, read(by_group(qkv)), write(by_group(dqkv)),
             to.workspace()});
}

}  // namespace zplan
