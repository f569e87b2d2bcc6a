#include "planner/lower/blocks/exchanged_core.h"

namespace zplan {
namespace {

AttentionCore make_core(LayerMaker inside, const Heads& heads, const AttentionScores& scores) {
  return {inside, heads, scores};
}

Value tokens(LayerMaker& maker, const char* name, std::int64_t width, LayerOperator op) {
  return maker.values.add({.name = name,
                           .shape = {maker.tokens(), width},
                           .dtype = maker.compute(),
                           .of = op,
                           .tiled = true});
}

}  // namespace

ExchangedCore::ExchangedCore(LayerMaker& maker, const Heads& heads, const AttentionScores& scores)
    : ranks_(maker),
      inside_(ranks_.inside(heads)),
      qkv_columns_{heads.width(), heads.queries * heads.size, heads.keys * heads.size},
      out_columns_{heads.out_width()},
      qkv_(tokens(maker, "qkv", qkv_columns_.all, LayerOperator::kQkv)),
      core_(make_core(ranks_.inside(maker), inside_, scores)),
      out_(ranks_.is_alone() && ranks_.in_order()
               ? core_.out()
               : tokens(maker, "attention.tokens", out_columns_.all, LayerOperator::kAttention)) {}

View ExchangedCore::enter(LayerPass& to, const View& made) const {
  const View apart = ranks_.reordered(to, "qkv.stretches", to[qkv_]);
  ranks_.to_heads(to, Part::kQkv, made, apart, qkv_columns_);
  return apart;
}

void ExchangedCore::forward(LayerPass& to) const {
  core_.forward(to, to[qkv_]);
  if (!to.emits(LayerOperator::kAttention)) return;
  const View given = to[core_.out()];
  const View apart =
      ranks_.is_alone() ? to[out_] : ranks_.reordered(to, "attention.stretches", given);
  ranks_.put_apart(to, Part::kAttention, given, apart);
  ranks_.to_tokens(to, Part::kAttention, apart, to[out_], out_columns_);
}

void ExchangedCore::backward(LayerPass& to, const View& dout, const View& dmade,
                             const std::function<void(const View& dqkv)>& back) const {
  if (!to.emits_inputs()) return core_.take_gradients(to);
  const View dattention = ranks_.inside(to, "d.attention.heads", dout);
  const View dqkv = ranks_.inside(to, "d.qkv.heads", dmade);
  ranks_.to_heads(to, Part::kAttention, dout, dattention, out_columns_);
  const View given = ranks_.reordered(to, "d.attention.ordered", dattention);
  ranks_.put_in_order(to, Part::kAttention, dattention, given);
  const View ordered = ranks_.reordered(to, "d.qkv.ordered", dqkv);
  core_.backward(to, to[qkv_], given, ordered);
  ranks_.put_apart(to, Part::kQkv, ordered, dqkv);
  back(dqkv);
  ranks_.to_tokens(to, Part::kQkv, dqkv, dmade, qkv_columns_);
}

}  // namespace zplan
