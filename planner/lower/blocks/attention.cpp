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
  if (!shape.qk_norm) return {};
  constexpr auto kOp = LayerOperator::kQkv;
  return {{inside, Part::kQueryNorm, "query_norm", 0, n.queries, n.size, shape.norm_epsilon, kOp},
          {inside, Part::kKeyNorm, "key_norm", n.queries, n.keys, n.size, shape.norm_epsilon, kOp}};
}

}  // namespace

SelfAttention::SelfAttention(LayerMaker& maker, const AttentionShape& shape)
    : ropes_(shape.ropes.begin(), shape.ropes.end()),
      qkv_(make_qkv(maker, shape)),
      core_(maker, shape.heads.piece(maker.pieces()), shape.scores),
      by_head_{maker.b(), core_.inside(maker).s(), core_.heads().all(), core_.heads().size},
      norms_(make_norms(core_.inside(maker), core_.heads(), shape)),
      projection_(maker, Part::kProjection, "proj", "projection", shape.heads.out_width(),
                  shape.projection_bias, LayerOperator::kProjection) {}

View SelfAttention::by_head(View qkv) const {
  qkv.shape = by_head_;
  return qkv;
}

const Rope* SelfAttention::rope(const LayerPass& to) const {
  if (ropes_.empty()) return nullptr;
  return &ropes_[static_cast<std::size_t>(to.layer()) % ropes_.size()];
}

std::vector<Use> SelfAttention::all_uses() const {
  std::vector<Use> all = uses();
  if (core_.sinks()) all.insert(all.begin() + 1, {LayerOperator::kAttention, core_.sinks()});
  return all;
}

void SelfAttention::forward(LayerPass& to, const View& x) const {
  if (to.emits(LayerOperator::kQkv)) {
    const View made = core_.made(to);
    qkv_.forward(to, x, made);
    const View entered = core_.enter(to, made), qkv = by_head(entered);
    for (const HeadNorm& norm : norms_) norm.forward(to, qkv);
    if (const Rope* turns = rope(to)) turns->forward(to, qkv, core_.heads().rotated());
    core_.settle(to, entered);
  }
  core_.forward(to);
  if (to.emits(LayerOperator::kProjection))
    projection_.linear.forward(to, core_.out(to), to[partial()]);
}

void SelfAttention::backward_before_tiles(LayerPass& to) const {
  for (const HeadNorm& norm : norms_) norm.backward_before_tiles(to);
}

void SelfAttention::backward(LayerPass& to, const View& x, const View& dy, const View& dx) const {
  const View dattention = core_.out_gradient(to);
  const View dqkv = to.handed_tokens(Part::kQkv, "d.qkv", core_.width());
  core_.replay(to);
  projection_.linear.backward(to, core_.out(to), dy, write(dattention));
  core_.backward(to, dattention, dqkv, [&](const View& inside) {
    if (const Rope* turns = rope(to)) turns->backward(to, by_head(inside), core_.heads().rotated());
    for (const HeadNorm& norm : norms_) norm.backward(to, by_head(inside));
  });
  qkv_.backward(to, x, dqkv, to.add_tiles(dx));
}

void SelfAttention::backward_after_tiles(LayerPass& to, const View&, const View&) const {
  for (const HeadNorm& norm : norms_) norm.backward_after_tiles(to);
}

}  // namespace zplan
