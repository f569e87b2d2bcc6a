#include "planner/lower/blocks/head_transform.h"

namespace zplan {
namespace {

NormBlock make_norm(Maker& maker, const NormKind& norm) {
  maker.params.begin("head_norm", Part::kHeadNorm, Held::kLastStage);
  return {maker, norm, Part::kHeadNorm, "head_norm", maker.h()};
}

// Every rank has all of it and gives all of its gradient, or that of its tokens.
Param make_weight(Maker& maker) {
  maker.params.begin("head_dense", Part::kHeadDense, Held::kLastStage);
  const Shape shape{maker.h(), maker.h()};
  return maker.params.add({maker.naming.of("head_dense", ".weight"),
                           shape,
                           shape,
                           Init::kNormal,
                           maker.naming.std().usual,
                           true,
                           {}});
}

}  // namespace

HeadTransform::HeadTransform(Maker& maker, const Vocabulary& vocabulary, const NormKind& norm,
                             ActivationShape activation)
    : weight_(make_weight(maker)),
      bias_(maker.vector("head_dense", ".bias", maker.h(), Init::kZero)),
      activation_(activation.attributes()),
      norm_(make_norm(maker, norm)) {
  maker.params.begin("head_bias", Part::kHeadBias, Held::kLastStage);
  vocabulary_bias_ = maker.params.add({maker.naming.of("head", ".bias"),
                                       {vocabulary.tokens},
                                       {vocabulary.padded},
                                       Init::kZero,
                                       0,
                                       false,
                                       {Split::Kind::kRows, {}}});
}

void HeadTransform::forward(Emission& to, const View& x, const Result& result) const {
  to.kernel(
      Part::kHeadDense, KernelId::kLinearForward,
      {read(x), to.parameter(weight_), to.parameter(bias_), write(result.dense), to.workspace()});
  to.kernel(Part::kHeadActivation, KernelId::kGeluForward,
            {read(result.dense), write(result.activated)}, activation_);
  norm_.forward(to, result.activated, result.normed);
}

void HeadTransform::backward(Emission& to, const View& x, const Result& result, const View& dy,
                             const View& dx) const {
  const View dactivated = to.scratch("d.head_dense", dx.shape);
  norm_.backward(to, dy, result.activated, result.normed, write(dactivated));
  to.kernel(Part::kHeadActivation, KernelId::kGeluBackward,
            {read(result.dense), update(dactivated)}, activation_);
  if (to.trains(weight_))
    to.kernel(
        Part::kHeadDense, Action::kWeightGradient, KernelId::kLinearWeightGradient,
        {read(x), read(dactivated), to.gradient(weight_), to.gradient(bias_), to.workspace()});
  to.kernel(Part::kHeadDense, KernelId::kLinearInputGradient,
            {read(dactivated), to.parameter(weight_), write(dx), to.workspace()});
  to.done(weight_);
}

void HeadTransform::add_bias(Emission& to, const View& logits) const {
  to.kernel(Part::kHeadBias, KernelId::kAddBias, {update(logits), to.parameter(vocabulary_bias_)});
}

void HeadTransform::bias_gradient(Emission& to, const View& dlogits, bool is_first) const {
  if (!to.trains(vocabulary_bias_)) return;
  const View dbias = to.gradient(vocabulary_bias_);
  to.kernel(Part::kHeadBias, Action::kBiasGradient, KernelId::kBiasGradient,
            {read(dlogits), is_first ? dbias : update(dbias), to.workspace()});
}

}  // namespace zplan
