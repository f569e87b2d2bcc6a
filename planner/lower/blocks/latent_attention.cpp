#include "planner/lower/blocks/latent_attention.h"

namespace zplan {
namespace {

Heads piece(const ModelConfig& model, std::int64_t pieces) {
  const std::int64_t heads = model.heads / pieces;
  return {heads, heads, model.head_size(), model.latent->value_size};
}

// Of all ranks and tiles together.
Linear whole(LayerMaker& maker, Part part, const std::string& tensor, std::int64_t width) {
  return {maker,
          part,
          tensor,
          {.in = maker.h(), .out = {width}, .cut = Split::Kind::kNone},
          OperatorSet{}};
}

// Of some elements for each head.
Linear by_heads(LayerMaker& maker, Part part, const char* tensor, std::int64_t in,
                std::int64_t heads, std::int64_t width) {
  return {maker, part, tensor, {.in = in, .out = {heads * width}}, LayerOperator::kQkv};
}

Value tokens(LayerMaker& maker, const std::string& name, std::int64_t width, OperatorSet of,
             Read in_backward = Read::kLate) {
  return maker.values.add({.name = name,
                           .shape = {maker.tokens(), width},
                           .dtype = maker.compute(),
                           .of = of,
                           .in_backward = in_backward});
}

std::optional<Latent> make_query(LayerMaker& maker, const ModelConfig& model) {
  const std::int64_t rank = model.latent->query_rank;
  if (rank == 0) return std::nullopt;
  return Latent(maker, Part::kQueryDown, Part::kQueryNorm, "query", rank, model.layer.norm_epsilon);
}

std::optional<Indexer> make_indexer(LayerMaker& maker, const ModelConfig& model) {
  if (!model.index) return std::nullopt;
  return std::optional<Indexer>(std::in_place, maker, model);
}

AttentionScores scores_of(const std::optional<Indexer>& indexer) {
  AttentionScores scores;
  if (indexer) scores.chosen = indexer->chosen();
  return scores;
}

}  // namespace

Latent::Latent(LayerMaker& maker, Part down, Part norm, const std::string& name, std::int64_t rank,
               std::int64_t epsilon)
    : rank_(rank),
      gradient_name_("d." + name + "_latent.normed"),
      down_(whole(maker, down, name + "_down", rank)),
      norm_(maker, {Norm::kRmsNorm, epsilon}, norm, name + "_latent_norm", rank, true),
      latent_(tokens(maker, name + "_latent", rank, OperatorSet{})),
      normed_(tokens(maker, name + "_latent.normed", rank, LayerOperator::kNorm)),
      rstd_(maker.values.add({.name = name + "_latent.rstd",
                              .shape = {maker.tokens()},
                              .dtype = maker.kernels.statistics,
                              .of = LayerOperator::kNorm})) {}

void Latent::down(LayerPass& to, const View& x) const { down_.forward(to, x, to[latent_]); }

void Latent::normalise(LayerPass& to) const { norm_.forward(to, to[latent_], result(to)); }

void Latent::backward(LayerPass& to, const View& x, const View& dx) const {
  const View dnormed = gradient(to);
  const View dlatent = to.handed(down_.part(), "d.latent", dnormed.shape, false);
  if (!to.emits_inputs()) norm_.take_gradients(to);
  norm_.backward(to, dnormed, to[latent_], result(to), write(dlatent));
  down_.backward(to, x, dlatent, dx);
}

LatentAttention::LatentAttention(LayerMaker& maker, const ModelConfig& model)
    : stretches_(maker.stretches()),
      stretch_(maker.stretch()),
      rope_(model.latent->rope_size),
      theta_(model.position == Position::kRope ? model.rope_theta : 0),
      keys_values_(model.latent->nope_size + model.latent->value_size),
      heads_(piece(model, maker.pieces())),
      query_(make_query(maker, model)),
      key_value_(maker, Part::kKeyDown, Part::kKeyNorm, "key", model.latent->key_value_rank,
                 model.layer.norm_epsilon),
      key_rope_(whole(maker, Part::kKeyRope, "key_rope", rope_)),
      key_rope_out_(tokens(maker, "key_rope", rope_, OperatorSet{}, Read::kNever)),
      indexer_(make_indexer(maker, model)),
      query_up_(by_heads(maker, Part::kQueryUp, query_ ? "query_up" : "query",
                         query_ ? model.latent->query_rank : maker.h(), model.heads,
                         model.head_size())),
      key_up_(by_heads(maker, Part::kKeyUp, "key_up", model.latent->key_value_rank, model.heads,
                       keys_values_)),
      core_(maker, heads_, scores_of(indexer_)),
      projection_(maker, Part::kProjection, "proj", "projection", model.attention_width(), false,
                  LayerOperator::kProjection) {}

View LatentAttention::by_head(View of, std::int64_t width) const {
  of.shape = {stretches_, stretch_, heads_.queries, width};
  return of;
}

View LatentAttention::shared(View rope) const {
  rope.shape = {stretches_, stretch_, rope_};
  return rope;
}

View LatentAttention::rope_gradient(LayerPass& to) const {
  return to.handed(Part::kKeyRope, "d.rope", {stretches_ * stretch_, rope_}, false);
}

bool LatentAttention::reads_input(const LayerPass& to) const {
  return to.emits_all() || (!query_ && to.emits(LayerOperator::kQkv));
}

void LatentAttention::forward_before_tiles(LayerPass& to, const View& x) const {
  if (to.emits_all()) {
    if (query_) query_->down(to, x);
    key_value_.down(to, x);
    key_rope_.forward(to, x, to[key_rope_out_]);
  }
  if (!to.emits(LayerOperator::kNorm)) return;
  if (query_) query_->normalise(to);
  key_value_.normalise(to);
  if (indexer_ && to.emits_all()) indexer_->forward(to, x, query_->normed(to));
}

void LatentAttention::forward(LayerPass& to, const View& x) const {
  if (to.emits(LayerOperator::kQkv)) {
    const View q = to.scratch_tokens("query", heads_.queries * heads_.size);
    const View kv = to.scratch_tokens("key_value", heads_.queries * keys_values_);
    const View made = core_.made(to);
    query_up_.forward(to, query_ ? query_->normed(to) : x, q);
    key_up_.forward(to, key_value_.normed(to), kv);
    const View qkv = by_head(made, heads_.width() / heads_.queries);
    const Stretches stretches = to.stretches();
    stretches.each([&](std::int32_t i) {
      const auto part = [&](const View& of) { return read(stretches.part(of, i)); };
      to.kernel(Part::kQkv, KernelId::kLatentHeadsForward,
                {part(by_head(q, heads_.size)), part(by_head(kv, keys_values_)),
                 part(shared(to[key_rope_out_])), write(part(qkv))},
                {theta_, stretches.begin(i)});
    });
    core_.settle(to, core_.enter(to, made));
  }
  core_.forward(to);
  if (to.emits(LayerOperator::kProjection))
    projection_.linear.forward(to, core_.out(to), to[partial()]);
}

void LatentAttention::backward_before_tiles(LayerPass& to) const {
  if (!to.emits_inputs()) return;
  if (query_) query_->clear_gradient(to);
  key_value_.clear_gradient(to);
  to.clear_for_tiles(Part::kKeyRope, rope_gradient(to));
  if (indexer_ && indexer_->learns(to)) indexer_->clear_given(to);
}

void LatentAttention::backward(LayerPass& to, const View& x, const View& dy, const View& dx) const {
  const View dattention = core_.out_gradient(to);
  core_.replay(to);
  projection_.linear.backward(to, core_.out(to), dy, write(dattention));
  if (indexer_ && to.emits_inputs() && indexer_->learns(to)) core_.shares(to, indexer_->given(to));
  const View dqkv = to.scratch_tokens("d.qkv", core_.width());
  core_.backward(to, dattention, dqkv, [](const View&) {});
  const View dq = to.handed_tokens(Part::kQueryUp, "d.query", heads_.queries * heads_.size);
  const View dkv = to.handed_tokens(Part::kKeyUp, "d.key_value", heads_.queries * keys_values_);
  const Stretches stretches = to.stretches();
  if (to.emits_inputs())
    stretches.each([&](std::int32_t i) {
      const auto part = [&](const View& of) { return stretches.part(of, i); };
      to.kernel(Part::kQkv, KernelId::kLatentHeadsBackward,
                {read(part(by_head(dqkv, heads_.width() / heads_.queries))),
                 write(part(by_head(dq, heads_.size))), write(part(by_head(dkv, keys_values_))),
                 part(to.add_tiles(shared(rope_gradient(to))))},
                {theta_, stretches.begin(i)});
    });
  key_up_.backward(to, key_value_.normed(to), dkv, to.add_tiles(key_value_.gradient(to)));
  if (query_) {
    query_up_.backward(to, query_->normed(to), dq, to.add_tiles(query_->gradient(to)));
  } else {
    query_up_.backward(to, x, dq, to.add_tiles(dx));
  }
}

// dx has what the tiles have given, which may be nothing.
void LatentAttention::backward_after_tiles(LayerPass& to, const View& x, const View& dx) const {
  const View sum = update(dx);
  if (indexer_ && indexer_->learns(to)) indexer_->backward(to, x, query_->normed(to));
  key_rope_.backward(to, x, read(rope_gradient(to)), query_ ? to.add_tiles(dx) : sum);
  key_value_.backward(to, x, sum);
  if (query_) query_->backward(to, x, sum);
}

}  // namespace zplan
