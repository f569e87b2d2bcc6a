#include "planner/lower/blocks/embedding.h"

#include "planner/lower/context_axis.h"

namespace zplan {
namespace {

// Of all positions, or of their gradient, the rows of the rank's tokens x [b, s, h].
View rows_of(const Emission& to, const View& x, View all) {
  all.shape = {x.shape[1], x.shape[2]};
  all.strides = to.by_place(kContextAxis, all.bytes().value).steps;
  return all;
}

// Rows of other ranks' tokens are zero here.
View gradient_of(Emission& to, const View& x, const View& all) {
  const View own = rows_of(to, x, all);
  if (own.bytes() == all.bytes() || all.access == Access::kUpdate) return own;
  to.kernel(Part::kPosition, Action::kWeightGradient, KernelId::kFillZero, {all});
  return update(own);
}

}  // namespace

Param Vocabulary::table(Maker& maker, std::string_view tensor) const {
  return maker.params.add({maker.naming.of(tensor, ".weight"),
                           {tokens, maker.h()},
                           {padded, maker.h()},
                           Init::kNormal,
                           maker.naming.std().usual,
                           true,
                           {Split::Kind::kRows, {}}});
}

Embedding::Embedding(Maker& maker, const Vocabulary& vocabulary, std::int64_t positions, Held held)
    : piece_(maker.tp() > 1 ? vocabulary.padded / maker.tp() : 0) {
  maker.params.begin("embedding", Part::kEmbedding, held);
  token_ = vocabulary.table(maker, "token");
  if (positions == 0) return;
  maker.params.begin("position", Part::kPosition, Held::kFirstStage);
  position_ = maker.params.add({maker.naming.of("position", ".weight"),
                                {positions, maker.h()},
                                {maker.plan.batch.sequence, maker.h()},
                                Init::kNormal,
                                maker.naming.std().usual,
                                true,
                                {}});
}

void Embedding::forward(Emission& to, const View& tokens, const View& out) const {
  const View table = to.parameter(token_);
  const Attributes attributes{to.by_place(kTensorAxis, piece_)};
  if (position_) {
    to.kernel(Part::kEmbedding, KernelId::kEmbeddingForward,
              {read(tokens), table, write(out), rows_of(to, out, to.parameter(position_))},
              attributes);
  } else {
    to.kernel(Part::kEmbedding, KernelId::kEmbeddingForward, {read(tokens), table, write(out)},
              attributes);
  }
}

void Embedding::backward(Emission& to, const View& tokens, const View& dout) const {
  const View dtable = to.gradient(token_);
  const Attributes attributes{to.by_place(kTensorAxis, piece_)};
  if (position_) {
    to.kernel(Part::kEmbedding, Action::kWeightGradient, KernelId::kEmbeddingBackward,
              {read(tokens), read(dout), dtable, gradient_of(to, dout, to.gradient(position_))},
              attributes);
  } else {
    to.kernel(Part::kEmbedding, Action::kWeightGradient, KernelId::kEmbeddingBackward,
              {read(tokens), read(dout), dtable}, attributes);
  }
  to.done(token_);
  if (position_) to.done(position_);
}

}  // namespace zplan
