#include "planner/lower/blocks/attention.h"

namespace zplan {
namespace {

Heads piece(Heads heads, std::int64_t pieces) {
  heads.queries /= pieces;
  heads.keys /= pieces;
  return heads;
}

Linear make_qkv(LayerMaker& maker, const AttentionShape& shape) {
  const Heads& n = shape.heads;
  const std::int64_t q = n.queries * n.size, kv = n.keys * n.size;
  return {maker,
          Part::kQkv,
          "qkv",
          {.in = maker.h(), .out = {q, kv, kv}, .bias = shape.qkv_bias},
          LayerOperator::kQkv};
}

}  // namespace

SelfAttention::SelfAttention(LayerMaker& maker, const AttentionShape& shape)
    : heads_(piece(shape.heads, maker.pieces())),
      by_head_{maker.b(), maker.s(), heads_.all(), heads_.size},
      rope_(shape.rope),
      qkv_(make_qkv(maker, shape)),
      qkv_out_(maker.values.add({.name = "qkv",
                                 .shape = {maker.tokens(), heads_.all() * heads_.size},
                                 .dtype = maker.compute(),
                                 .of = LayerOperator::kQkv,
                                 .tiled = true})),
      core_(maker, heads_),
      projection_(maker, Part::kProjection, "proj", "projection",
                  shape.heads.queries * shape.heads.size, shape.projection_bias,
                  LayerOperator::kProjection) {}

View SelfAttention::by_head(View qkv) const {
  qkv.shape = by_head_;
  return qkv;
}

void SelfAttention::forward(LayerPass& to, const View& x) const {
  const View qkv = by_head(to[qkv_out_]);
  if (to.emits(LayerOperator::kQkv)) {
    qkv_.forward(to, x, to[qkv_out_]);
    if (rope_) rope_->forward(to, qkv, heads_.rotated());
  }
  core_.forward(to, qkv);
  if (to.emits(LayerOperator::kProjection))
    projection_.linear.forward(to, to[core_.out()], to[partial()]);
}

void SelfAttention::backward(LayerPass& to, const View& x, const View& dy, const View& dx) const {
  const View qkv = by_head(to[qkv_out_]);
  const View dattention = to.scratch_tokens("d.attention", heads_.queries * heads_.size);
  const View dqkv = to.handed_tokens(Part::kQkv, "d.qkv", heads_.all() * heads_.size);
  core_.replay(to, qkv);
  projection_.linear.backward(to, to[core_.out()], dy, dattention);
  core_.backward(to, qkv, dattention, by_head(dqkv));
  if (rope_) rope_->backward(to, by_head(dqkv), heads_.rotated());
  qkv_.backward(to, x, dqkv, dx);
}

}  // namespace zplan
