#include "planner/lower/attention.h"

namespace zplan {
namespace {

constexpr Lane kLane = Lane::kCompute;

Role compute(Phase phase, Part part) { return {phase, part, Action::kCompute}; }
Role input_gradient(Part part) { return {Phase::kBackward, part, Action::kInputGradient}; }

}  // namespace

View AttentionCore::heads(View qkv) const {
  qkv.shape = {s_.b(), s_.s(), s_.heads() + 2 * s_.kv_heads(), s_.model.head_size()};
  return qkv;
}

View AttentionCore::output(View out) const {
  out.shape = {s_.b(), s_.s(), s_.heads(), s_.model.head_size()};
  return out;
}

void AttentionCore::rotate(Phase phase, const View& qkv, std::int64_t direction) {
  if (s_.model.position != Position::kRope) return;
  const Action action = phase == Phase::kBackward ? Action::kInputGradient : Action::kCompute;
  s_.out.kernel({phase, Part::kRope, action}, kLane, KernelId::kRope, {update(heads(qkv))},
                {s_.heads() + s_.kv_heads(), s_.model.rope_theta, direction});
}

void AttentionCore::probabilities(Phase phase, const LayerActivations& a) {
  s_.out.kernel(compute(phase, Part::kScores), kLane, KernelId::kAttentionScores,
                {read(heads(a.qkv)), write(a.probs), s_.workspace});
  s_.out.kernel(compute(phase, Part::kSoftmax), kLane, KernelId::kSoftmaxForward,
                {update(a.probs)});
  if (s_.plan.dropout)
    s_.out.kernel({phase, Part::kSoftmax, Action::kDrop}, kLane, KernelId::kDropoutForward,
                  {read(a.probs), write(a.probs_mask), write(a.dropped)});
}

void AttentionCore::forward(Phase phase, const LayerActivations& a) {
  if (s_.kernels.fused_attention) {
    s_.out.kernel(compute(phase, Part::kAttention), kLane, KernelId::kAttentionForward,
                  {read(heads(a.qkv)), write(output(a.attention)), write(a.lse), s_.workspace});
    return;
  }
  probabilities(phase, a);
  s_.out.kernel(compute(phase, Part::kAttention), kLane, KernelId::kAttentionContext,
                {read(a.dropped), read(heads(a.qkv)), write(output(a.attention)), s_.workspace});
}

void AttentionCore::replay_probabilities(const LayerActivations& a) {
  probabilities(Phase::kRecompute, a);
}

void AttentionCore::backward(const LayerActivations& a, const View& dattention, const View& dqkv) {
  const View dout = read(output(dattention));
  const View qkv = read(heads(a.qkv));
  if (s_.kernels.fused_attention) {
    s_.out.kernel(
        input_gradient(Part::kAttention), kLane, KernelId::kAttentionBackward,
        {dout, qkv, read(output(a.attention)), read(a.lse), write(heads(dqkv)), s_.workspace});
  } else {
    const View dprobs = s_.transient("d.probs", a.probs.shape, s_.compute());
    View ddropped = dprobs;
    if (s_.plan.dropout) ddropped = s_.transient("d.dropped", a.probs.shape, s_.compute());
    s_.out.kernel(input_gradient(Part::kAttention), kLane, KernelId::kAttentionContextGradient,
                  {dout, qkv, write(ddropped), s_.workspace});
    if (s_.plan.dropout)
      s_.out.kernel({Phase::kBackward, Part::kSoftmax, Action::kDrop}, kLane,
                    KernelId::kDropoutBackward,
                    {read(ddropped), read(a.probs_mask), write(dprobs)});
    s_.out.kernel(input_gradient(Part::kSoftmax), kLane, KernelId::kSoftmaxBackward,
                  {read(a.probs), update(dprobs)});
    s_.out.kernel(input_gradient(Part::kScores), kLane, KernelId::kAttentionScoresGradient,
                  {read(dprobs), read(a.dropped), dout, qkv, write(heads(dqkv)), s_.workspace});
  }
  rotate(Phase::kBackward, dqkv, -1);
}

}  // namespace zplan
