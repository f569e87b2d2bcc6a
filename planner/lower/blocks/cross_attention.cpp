#include "planner/lower/blocks/cross_attention.h"

namespace zplan {
namespace {

// The nodes of the core are told apart from those of self-attention as a second step.
constexpr std::int32_t kStep = 1;

Linear make(LayerMaker& maker, Part part, std::string_view tensor, const AttentionShape& shape) {
  return {maker,
          part,
          tensor,
          {.in = maker.h(), .out = {shape.heads.out_width()}, .bias = shape.qkv_bias},
          LayerOperator::kQkv};
}

// All keys are seen, and neither positions nor windows change a score.
AttentionScores plain(const AttentionScores& own) {
  return {.divisor = own.divisor, .both_ways = true};
}

// Queries, keys or values of what lies one after the other.
View one_of(View all, std::int64_t i) {
  const std::int64_t tokens = all.shape[1], width = all.shape[2];
  all.shape = {tokens, width};
  all.offset = all.offset + all.bytes() * i;
  return all;
}

}  // namespace

CrossAttention::CrossAttention(LayerMaker& maker, const AttentionShape& shape)
    : width_(shape.heads.out_width() / maker.pieces()),
      query_(make(maker, Part::kCrossQuery, "cross_query", shape)),
      key_(make(maker, Part::kCrossKey, "cross_key", shape)),
      value_(make(maker, Part::kCrossValue, "cross_value", shape)),
      qkv_(maker.values.add({.name = "qkv",
                             .shape = {maker.tokens(), 3 * width_},
                             .dtype = maker.compute(),
                             .of = LayerOperator::kQkv,
                             .tiled = true})),
      core_(maker, shape.heads.piece(maker.pieces()), plain(shape.scores)),
      projection_(maker, Part::kCrossProjection, "cross_proj", "cross_projection",
                  shape.heads.out_width(), shape.projection_bias, LayerOperator::kProjection) {}

void CrossAttention::forward(LayerPass& to, const View& x) const {
  if (to.emits(LayerOperator::kQkv)) {
    const View made = to.scratch("cross.made", {3, x.shape[0], width_});
    query_.forward(to, x, one_of(made, 0));
    key_.forward(to, to.encoded(), one_of(made, 1));
    value_.forward(to, to.encoded(), one_of(made, 2));
    to.kernel(Part::kCross, Action::kJoin, KernelId::kJoinColumns, {read(made), write(to[qkv_])});
  }
  if (to.emits(LayerOperator::kAttention)) to.step(kStep, [&] { core_.forward(to, to[qkv_]); });
  if (to.emits(LayerOperator::kProjection))
    projection_.linear.forward(to, to[core_.out()], to[partial()]);
}

void CrossAttention::backward(LayerPass& to, const View& x, const View& dy, const View& dx) const {
  const std::int64_t tokens = x.shape[0];
  const View dattention = to.scratch_tokens("d.attention", width_);
  const View dqkv = to.scratch_tokens("d.qkv", 3 * width_);
  if (to.replays_selectively()) to.step(kStep, [&] { core_.replay(to, to[qkv_]); });
  projection_.linear.backward(to, to[core_.out()], dy, write(dattention));
  to.step(kStep, [&] { core_.backward(to, to[qkv_], dattention, dqkv); });
  const View dmade = to.scratch("d.cross", {3, tokens, width_});
  to.kernel(Part::kCross, Action::kCut, KernelId::kSplitColumns, {read(dqkv), write(dmade)});
  value_.backward(to, to.encoded(), one_of(dmade, 2), to.encoded_gradient());
  key_.backward(to, to.encoded(), one_of(dmade, 1), to.encoded_gradient());
  query_.backward(to, x, one_of(dmade, 0), to.add_tiles(dx));
}

}  // namespace zplan
