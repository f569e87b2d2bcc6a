#include "planner/lower/blocks/indexer.h"

#include <algorithm>

namespace zplan {
namespace {

constexpr std::int64_t kNormEpsilon = 1'000'000;  // in units of 1e-12 [Transformers]

Linear whole(LayerMaker& maker, Part part, const char* tensor, std::int64_t in, std::int64_t out) {
  return {maker, part, tensor, {.in = in, .out = {out}, .cut = Split::Kind::kNone}, OperatorSet{}};
}

RopeShape rope_of(const ModelConfig& model) {
  if (model.position != Position::kRope) return {};
  return {.theta = model.rope_theta, .size = model.latent->rope_size};
}

Value statistic(LayerMaker& maker, const char* name) {
  return maker.values.add(
      {.name = name, .shape = {maker.tokens()}, .dtype = maker.kernels.statistics});
}

}  // namespace

Value Indexer::value(LayerMaker& maker, const char* name, std::int64_t width) const {
  return maker.values.add(
      {.name = name, .shape = {maker.tokens(), width}, .dtype = maker.compute()});
}

Indexer::Indexer(LayerMaker& maker, const ModelConfig& model)
    : b_(maker.b()),
      s_(maker.s()),
      heads_(model.index->heads),
      size_(model.index->head_size),
      chosen_keys_(std::min(model.index->keys, maker.s())),
      attention_heads_(model.heads),
      ranks_(maker.tp()),
      global_tokens_(maker.plan.batch.global_batch * maker.s()),
      query_rope_(rope_of(model), Part::kIndexQueryRope),
      key_rope_(rope_of(model), Part::kIndexKeyRope),
      query_(
          whole(maker, Part::kIndexQuery, "index_query", model.latent->query_rank, heads_ * size_)),
      key_(whole(maker, Part::kIndexKey, "index_key", maker.h(), size_)),
      weights_(whole(maker, Part::kIndexWeights, "index_weights", maker.h(), heads_)),
      norm_(maker, {Norm::kLayerNorm, kNormEpsilon}, Part::kIndexNorm, "index_norm", size_, true),
      queries_out_(value(maker, "index.queries", heads_ * size_)),
      key_out_(value(maker, "index.key", size_)),
      weights_out_(value(maker, "index.weights", heads_)),
      keys_(value(maker, "index.key.normed", size_)),
      mean_(statistic(maker, "index.mean")),
      rstd_(statistic(maker, "index.rstd")),
      chosen_(maker.values.add(
          {.name = "index.chosen", .shape = {b_, s_, chosen_keys_}, .dtype = DType::kI32})) {}

View Indexer::queries(View all) const {
  all.shape = {b_, s_, heads_, size_};
  return all;
}

View Indexer::by_token(View all) const {
  all.shape = {b_, s_, all.shape[1]};
  return all;
}

View Indexer::one_head(View all) const {
  all.shape = {b_, s_, 1, size_};
  return all;
}

void Indexer::forward(LayerPass& to, const View& x, const View& latent) const {
  const View q = to[queries_out_], k = to[keys_], weights = to[weights_out_];
  query_.forward(to, latent, q);
  key_.forward(to, x, to[key_out_]);
  norm_.forward(to, to[key_out_], normed(to));
  weights_.forward(to, x, weights);
  if (query_rope_.turns()) {
    query_rope_.forward(to, queries(q), heads_);
    key_rope_.forward(to, one_head(k), 1);
  }
  to.kernel(Part::kIndex, KernelId::kChooseKeys,
            {read(queries(q)), read(by_token(k)), read(by_token(weights)), write(to[chosen_]),
             to.workspace()});
}

View Indexer::given(LayerPass& to) const {
  return to.scratch("index.given", to[chosen_].shape, to.statistics());
}

// Emits the gradients of what the products give.
void Indexer::gradients(LayerPass& to, const View& dq, const View& dk, const View& dweights) const {
  const View dnormed = to.scratch("d.index.key.normed", dk.shape);
  to.kernel(
      Part::kIndex, KernelId::kChooseKeysBackward,
      {read(given(to)), read(to[chosen_]), read(queries(to[queries_out_])),
       read(by_token(to[keys_])), read(by_token(to[weights_out_])), read(to.scalars()),
       write(queries(dq)), write(by_token(dnormed)), write(by_token(dweights)), to.workspace()},
      {attention_heads_, ranks_, global_tokens_});
  if (query_rope_.turns()) {
    query_rope_.backward(to, queries(dq), heads_);
    key_rope_.backward(to, one_head(dnormed), 1);
  }
  norm_.backward(to, dnormed, to[key_out_], normed(to), write(dk));
}

void Indexer::backward(LayerPass& to, const View& x, const View& latent) const {
  const View dq = to.handed(Part::kIndexQuery, "d.index.queries", to[queries_out_].shape, false);
  const View dk = to.handed(Part::kIndexKey, "d.index.key", to[key_out_].shape, false);
  const View dweights =
      to.handed(Part::kIndexWeights, "d.index.weights", to[weights_out_].shape, false);
  if (to.emits_inputs()) gradients(to, dq, dk, dweights);
  if (!to.emits_inputs()) norm_.take_gradients(to);
  query_.gradient(to, latent, dq);
  key_.gradient(to, x, dk);
  weights_.gradient(to, x, dweights);
}

}  // namespace zplan
