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

HeadTransform::HeadTransform(Maker& maker, const NormKind& norm, ActivationShape activation,
                             bool bias)
    : weight_(make_weight(maker)),
      bias_(bias ? maker.vector("head_dense", ".bias", maker.h(), Init::kZero) : Param{}),
      activation_(activation.attributes()),
      norm_(make_norm(maker, norm)) {}

void HeadTransform::forward(Emission& to, const View& x, const Result& result) const {
  if (bias_)
    to.kernel(
        Part::kHeadDense, KernelId::kLinearForward,
        {read(x), to.parameter(weight_), to.parameter(bias_), write(result.dense), to.workspace()});
  else
    to.kernel(Part::kHeadDense, KernelId::kMatmulForward,
              {read(x), to.parameter(weight_), write(result.dense), to.workspace()});
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
  if (to.trains(weight_) && bias_)
    to.kernel(
        Part::kHeadDense, Action::kWeightGradient, KernelId::kLinearWeightGradient,
        {read(x), read(dactivated), to.gradient(weight_), to.gradient(bias_), to.workspace()});
  else if (to.trains(weight_))
    to.kernel(Part::kHeadDense, Action::kWeightGradient, KernelId::kMatmulWeightGradient,
              {read(x), read(dactivated), to.gradient(weight_), to.workspace()});
  to.kernel(Part::kHeadDense, KernelId::kLinearInputGradient,
            {read(dactivated), to.parameter(weight_), write(dx), to.workspace()});
  to.done(weight_);
}

}  // namespace zplan
