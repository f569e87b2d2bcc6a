#include "planner/lower/blocks/attention.h"

namespace zplan {
namespace {

Linear make_qkv(LayerMaker& maker, const AttentionShape& shape) {
  const Heads& n = shape.heads;
  const std::int64_t q = n.queries * n.size, kv = n.keys * n.size;
  return {maker,
          Part::kQkv,
          "qkv",
          {.in = maker.h(), .out = {q, kv, kv}, .bias = shape.qkv_bias},
          LayerOperator::kQkv};
}

// Of queries and of keys, which stand side by side.
std::vector<HeadNorm> make_norms(LayerMaker inside, const Heads& n, const AttentionShape& shape) {
  if (!shape.qk_norm || shape.whole_qk_norm) return {};
  constexpr auto kOp = LayerOperator::kQkv;
  return {{inside, Part::kQueryNorm, "query_norm", 0, n.queries, n.size, shape.norm_epsilon, kOp},
          {inside, Part::kKeyNorm, "key_norm", n.queries, n.keys, n.size, shape.norm_epsilon, kOp}};
}

ColumnFactors make_factors(const LayerMaker& maker, const AttentionShape& shape) {
  const Heads own = shape.heads.piece(maker.pieces());
  const std::int64_t kv = own.keys * own.size;
  return ColumnFactors({{own.queries * own.size, shape.factors.query},
                        {kv, shape.factors.key},
                        {kv, shape.factors.value}});
}

std::optional<AttentionGate> make_gate(LayerMaker& maker, const AttentionShape& shape) {
  if (!shape.gate) return std::nullopt;
  return std::optional<AttentionGate>(std::in_place, maker, shape.heads);
}

std::optional<WholeNorm> make_whole_norm(LayerMaker& maker, const AttentionShape& shape) {
  if (!shape.whole_qk_norm) return std::nullopt;
  return WholeNorm(maker, shape.heads, shape.heads.piece(maker.pieces()), shape.norm_epsilon);
}

}  // namespace

AttentionGate::AttentionGate(LayerMaker& maker, const Heads& heads)
    : linear(maker, Part::kAttentionGate, "attention_gate",
             {.in = maker.h(), .out = {heads.out_width()}}, LayerOperator::kQkv) {
  const auto add = [&](const char* name, LayerOperator op) {
    return maker.values.add({.name = name,
                             .shape = {maker.tokens(), heads.out_width() / maker.pieces()},
                             .dtype = maker.compute(),
                             .of = op,
                             .tiled = true});
  };
  gate = add("gate", LayerOperator::kQkv);
  gated = add("attention.gated", LayerOperator::kAttention);
}

SelfAttention::SelfAttention(LayerMaker& maker, const AttentionShape& shape)
    : ropes_(shape.ropes.begin(), shape.ropes.end()),
      qkv_(make_qkv(maker, shape)),
      factors_(make_factors(maker, shape)),
      gate_(make_gate(maker, shape)),
      core_(maker, shape.heads.piece(maker.pieces()), shape.scores),
      by_head_{maker.b(), core_.inside(maker).s(), core_.heads().all(), core_.heads().size},
      norms_(make_norms(core_.inside(maker), core_.heads(), shape)),
      whole_norm_(make_whole_norm(maker, shape)),
      projection_(maker, Part::kProjection, "proj", "projection", shape.heads.out_width(),
                  shape.projection_bias,
                  shape.ends_layer ? OperatorSet{} : LayerOperator::kProjection) {}

View SelfAttention::by_head(View qkv) const {
  qkv.shape = by_head_;
  return qkv;
}

const Rope* SelfAttention::rope(const LayerPass& to) const {
  if (ropes_.empty()) return nullptr;
  const Rope& own = ropes_[static_cast<std::size_t>(to.layer()) % ropes_.size()];
  return own.turns() ? &own : nullptr;
}

std::vector<Use> SelfAttention::all_uses() const {
  std::vector<Use> all = uses();
  if (core_.sinks()) all.insert(all.begin() + 1, {LayerOperator::kAttention, core_.sinks()});
  return all;
}

View SelfAttention::projected(LayerPass& to) const {
  return gate_ ? to[gate_->gated] : core_.out(to);
}

// Turns the gradient of the projection's input into those of attention's result and of the gate.
View SelfAttention::gate_backward(LayerPass& to, const View& dgated, const View& dattention) const {
  const View dgate = to.handed(Part::kAttentionGate, "d.gate", dgated.shape, true);
  if (to.emits_inputs())
    to.kernel(Part::kGatedAttention, KernelId::kGateBackward,
              {read(dgated), read(core_.out(to)), read(to[gate_->gate]), write(dattention),
               write(dgate)});
  return dgate;
}

void SelfAttention::forward(LayerPass& to, const View& x) const {
  if (to.emits(LayerOperator::kQkv)) {
    if (gate_) gate_->linear.forward(to, x, to[gate_->gate]);
    const View made = core_.made(to);
    qkv_.forward(to, x, made);
    factors_.multiply(to, Part::kQkv, made);
    if (whole_norm_) whole_norm_->forward(to, made);
    const View entered = core_.enter(to, made), qkv = by_head(entered);
    for (const HeadNorm& norm : norms_) norm.forward(to, qkv);
    if (const Rope* turns = rope(to)) turns->forward(to, qkv, core_.heads().rotated());
    core_.settle(to, entered);
  }
  core_.forward(to);
  if (gate_ && to.emits(LayerOperator::kAttention))
    to.kernel(Part::kGatedAttention, KernelId::kGateForward,
              {read(core_.out(to)), read(to[gate_->gate]), write(to[gate_->gated])});
  if (to.emits(projection_.linear.use().of))
    projection_.linear.forward(to, projected(to), to[partial()]);
}

void SelfAttention::backward_before_tiles(LayerPass& to) const {
  for (const HeadNorm& norm : norms_) norm.backward_before_tiles(to);
}

void SelfAttention::backward(LayerPass& to, const View& x, const View& dy, const View& dx) const {
  const View dattention = core_.out_gradient(to);
  const View dqkv = to.handed_tokens(Part::kQkv, "d.qkv", core_.width());
  core_.replay(to);
  View dgate;
  if (gate_) {
    const View dgated = to.scratch("d.gated", to[gate_->gated].shape);
    projection_.linear.backward(to, projected(to), dy, write(dgated));
    dgate = gate_backward(to, dgated, dattention);
  } else {
    projection_.linear.backward(to, core_.out(to), dy, write(dattention));
  }
  core_.backward(to, dattention, dqkv, [&](const View& inside) {
    if (const Rope* turns = rope(to)) turns->backward(to, by_head(inside), core_.heads().rotated());
    for (const HeadNorm& norm : norms_) norm.backward(to, by_head(inside));
  });
  if (whole_norm_) whole_norm_->backward(to, dqkv);
  if (to.emits_inputs()) factors_.multiply(to, Part::kQkv, dqkv);
  // The product of queries, keys and values comes last: it closes the gradients of the unit.
  if (gate_) gate_->linear.backward(to, x, dgate, to.add_tiles(dx));
  qkv_.backward(to, x, dqkv, gate_ ? update(dx) : to.add_tiles(dx));
}

void SelfAttention::backward_after_tiles(LayerPass& to, const View&, const View&) const {
  for (const HeadNorm& norm : norms_) norm.backward_after_tiles(to);
  if (whole_norm_) whole_norm_->take_gradients(to);
}

}  // namespace zplan
