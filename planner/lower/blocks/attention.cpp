#include "planner/lower/blocks/attention.h"

namespace zplan {
namespace {

Heads piece(Heads heads, std::int64_t pieces) {
  heads.queries /= pieces;
  heads.keys /= pieces;
  return heads;
}

ContextParallel::Columns columns_of(const Heads& n) {
  return {n.width(), n.queries * n.size, n.keys * n.size};
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

AttentionCore make_core(LayerMaker inside, const Heads& heads) { return {inside, heads}; }

// Of queries and of keys, which stand side by side.
std::vector<HeadNorm> make_norms(LayerMaker inside, const Heads& n, bool has) {
  if (!has) return {};
  constexpr auto kOp = LayerOperator::kQkv;
  return {{inside, Part::kQueryNorm, "query_norm", 0, n.queries, n.size, kOp},
          {inside, Part::kKeyNorm, "key_norm", n.queries, n.keys, n.size, kOp}};
}

}  // namespace

SelfAttention::SelfAttention(LayerMaker& maker, const AttentionShape& shape)
    : ranks_(maker),
      heads_(piece(shape.heads, maker.pieces())),
      inside_(ranks_.inside(heads_)),
      qkv_columns_(columns_of(heads_)),
      columns_{heads_.out_width()},
      by_head_{maker.b(), ranks_.inside(maker).s(), inside_.all(), inside_.size},
      rope_(shape.rope),
      qkv_(make_qkv(maker, shape)),
      qkv_out_(maker.values.add({.name = "qkv",
                                 .shape = {maker.tokens(), qkv_columns_.all},
                                 .dtype = maker.compute(),
                                 .of = LayerOperator::kQkv,
                                 .tiled = true})),
      norms_(make_norms(ranks_.inside(maker), inside_, shape.qk_norm)),
      core_(make_core(ranks_.inside(maker), inside_)),
      out_(ranks_.is_alone() ? core_.out()
                             : maker.values.add({.name = "attention.tokens",
                                                 .shape = {maker.tokens(), columns_.all},
                                                 .dtype = maker.compute(),
                                                 .of = LayerOperator::kAttention,
                                                 .tiled = true})),
      projection_(maker, Part::kProjection, "proj", "projection", shape.heads.out_width(),
                  shape.projection_bias, LayerOperator::kProjection) {}

View SelfAttention::by_head(View qkv) const {
  qkv.shape = by_head_;
  return qkv;
}

void SelfAttention::forward(LayerPass& to, const View& x) const {
  const View qkv = to[qkv_out_];
  if (to.emits(LayerOperator::kQkv)) {
    const View own = ranks_.outside(to, "qkv.tokens", qkv, qkv_columns_);
    qkv_.forward(to, x, own);
    ranks_.to_heads(to, Part::kQkv, own, qkv, qkv_columns_);
    for (const HeadNorm& norm : norms_) norm.forward(to, by_head(qkv));
    if (rope_) rope_->forward(to, by_head(qkv), inside_.rotated());
  }
  core_.forward(to, qkv);
  if (to.emits(LayerOperator::kAttention))
    ranks_.to_tokens(to, Part::kAttention, to[core_.out()], to[out_], columns_);
  if (to.emits(LayerOperator::kProjection)) projection_.linear.forward(to, to[out_], to[partial()]);
}

void SelfAttention::backward_before_tiles(LayerPass& to) const {
  for (const HeadNorm& norm : norms_) norm.backward_before_tiles(to);
}

void SelfAttention::backward(LayerPass& to, const View& x, const View& dy, const View& dx) const {
  const View qkv = to[qkv_out_];
  const View dattention = to.scratch_tokens("d.attention", columns_.all);
  const View dqkv = to.handed_tokens(Part::kQkv, "d.qkv", qkv_columns_.all);
  core_.replay(to, qkv);
  projection_.linear.backward(to, to[out_], dy, write(dattention));
  if (to.emits_inputs()) inputs_backward(to, qkv, dattention, dqkv);
  qkv_.backward(to, x, dqkv, to.add_tiles(dx));
}

void SelfAttention::backward_after_tiles(LayerPass& to, const View&, const View&) const {
  for (const HeadNorm& norm : norms_) norm.backward_after_tiles(to);
}

// From the gradient of what the core gives to that of queries, keys and values, both outside.
void SelfAttention::inputs_backward(LayerPass& to, const View& qkv, const View& dattention,
                                    const View& dqkv) const {
  const View dout = ranks_.inside(to, "d.attention.heads", dattention);
  const View dinside = ranks_.inside(to, "d.qkv.heads", dqkv);
  ranks_.to_heads(to, Part::kAttention, dattention, dout, columns_);
  core_.backward(to, qkv, dout, dinside);
  if (rope_) rope_->backward(to, by_head(dinside), inside_.rotated());
  for (const HeadNorm& norm : norms_) norm.backward(to, by_head(dinside));
  ranks_.to_tokens(to, Part::kQkv, dinside, dqkv, qkv_columns_);
}

}  // namespace zplan
