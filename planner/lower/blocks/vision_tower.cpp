#include "planner/lower/blocks/vision_tower.h"

#include <utility>

namespace zplan {
namespace {

using StepKind = ProjectorStep::Kind;

// Every rank has all of it and gives all of its gradient.
Param whole_matrix(Maker& maker, std::string_view tensor, const Shape& shape) {
  return maker.params.add({maker.naming.of(tensor, ".weight"),
                           shape,
                           shape,
                           Init::kNormal,
                           maker.naming.std().usual,
                           true,
                           {}});
}

std::optional<NormBlock> step_norm(Maker& maker, const ProjectorStep& step) {
  if (norm_vectors_of(step.kind) == 0) return std::nullopt;
  const Norm norm = step.kind == StepKind::kLayerNorm ? Norm::kLayerNorm : Norm::kRmsNorm;
  return NormBlock(maker, NormKind{.norm = norm}, Part::kProjectorNorm, "projector", step.in);
}

void product_forward(Emission& to, Part part, const View& x, Param weight, Param bias,
                     const View& y) {
  if (bias)
    to.kernel(part, KernelId::kLinearForward,
              {read(x), to.parameter(weight), to.parameter(bias), write(y), to.workspace()});
  else
    to.kernel(part, KernelId::kMatmulForward,
              {read(x), to.parameter(weight), write(y), to.workspace()});
}

void weight_backward(Emission& to, Part part, const View& x, const View& dy, Param weight,
                     Param bias) {
  if (!to.trains(weight)) return;
  if (bias)
    to.kernel(part, Action::kWeightGradient, KernelId::kLinearWeightGradient,
              {read(x), read(dy), to.gradient(weight), to.gradient(bias), to.workspace()});
  else
    to.kernel(part, Action::kWeightGradient, KernelId::kMatmulWeightGradient,
              {read(x), read(dy), to.gradient(weight), to.workspace()});
}

}  // namespace

PatchEmbedding::PatchEmbedding(Maker& maker, const VisionShape& vision)
    : patches_(vision.patches), rows_(vision.positions) {
  maker.params.begin("patches", Part::kPatches, Held::kFirstStage);
  const std::int64_t h = maker.h();
  weight_ = whole_matrix(maker, "patch", {vision.patch, h});
  if (vision.patch_bias) bias_ = maker.vector("patch", ".bias", h, Init::kZero);
  if (rows_ > 0) positions_ = whole_matrix(maker, "patch_position", {rows_, h});
  const NormKind kind{.norm = vision.rms_norm ? Norm::kRmsNorm : Norm::kLayerNorm};
  if (vision.embedding_norm) norm_.emplace(maker, kind, Part::kPatchNorm, "patch_norm", h);
}

View PatchEmbedding::by_image(View x) const {
  x.shape = {x.shape[0] / patches_, patches_, x.shape[1]};
  return x;
}

// Neighbours share a row where an image has more patches than there are rows.
Attributes PatchEmbedding::row_of_patch() const { return {ceil_div(patches_, rows_)}; }

void PatchEmbedding::forward(Emission& to, const View& pixels, const Result& result) const {
  const View sum = norm_ ? result.sum : result.normed.y;
  product_forward(to, Part::kPatches, pixels, weight_, bias_, sum);
  if (positions_)
    to.kernel(Part::kPatchPosition, KernelId::kSegmentForward,
              {update(by_image(sum)), to.parameter(positions_)}, row_of_patch());
  if (norm_) norm_->forward(to, sum, result.normed);
}

void PatchEmbedding::backward(Emission& to, const View& pixels, const Result& result,
                              const View& dx) const {
  View dsum = dx;
  if (norm_) {
    dsum = to.scratch("d.patch_sum", dx.shape);
    norm_->backward(to, dx, result.sum, result.normed, write(dsum));
  }
  if (positions_)
    to.kernel(Part::kPatchPosition, Action::kWeightGradient, KernelId::kSegmentBackward,
              {read(by_image(dsum)), to.gradient(positions_)}, row_of_patch());
  weight_backward(to, Part::kPatches, pixels, dsum, weight_, bias_);
  to.done(weight_);
}

ProjectorBlock::ProjectorBlock(Maker& maker, const ProjectorStep& step, std::int64_t merge,
                               std::int64_t number)
    : step_(step), merge_(merge) {
  Maker own = maker;
  own.naming = maker.naming.of_layer(number);
  norm_ = step_norm(own, step);
  if (step.kind != StepKind::kProduct) return;
  weight_ = whole_matrix(own, "projector", {step.in, step.out});
  if (step.bias) bias_ = own.vector("projector", ".bias", step.out, Init::kZero);
}

Shape ProjectorBlock::result(const Shape& x) const {
  const bool fewer = step_.kind == StepKind::kMerge || step_.kind == StepKind::kMean;
  return {fewer ? x[0] / merge_ : x[0], step_.out};
}

Attributes ProjectorBlock::activation() const {
  const auto function =
      step_.kind == StepKind::kSilu ? ActivationFunction::kSilu : ActivationFunction::kOwn;
  return {static_cast<std::int64_t>(function)};
}

void ProjectorBlock::forward(Emission& to, const View& x, const Normed& result) const {
  const View y = write(result.y);
  switch (step_.kind) {
    case StepKind::kLayerNorm:
    case StepKind::kRmsNorm:
      return norm_->forward(to, x, result);
    case StepKind::kMerge:
      return;
    case StepKind::kMean:
      return to.kernel(Part::kProjectorActivation, KernelId::kMeanRows, {read(x), y});
    case StepKind::kProduct:
      return product_forward(to, Part::kProjector, x, weight_, bias_, y);
    case StepKind::kGelu:
    case StepKind::kSilu:
      return to.kernel(Part::kProjectorActivation, KernelId::kGeluForward, {read(x), y},
                       activation());
    case StepKind::kSwiglu:
      return to.kernel(Part::kProjectorActivation, KernelId::kSwigluForward, {read(x), y});
  }
}

void ProjectorBlock::backward(Emission& to, const View& x, const Normed& result, const View& dy,
                              const View& dx) const {
  switch (step_.kind) {
    case StepKind::kLayerNorm:
    case StepKind::kRmsNorm:
      return norm_->backward(to, dy, x, result, write(dx));
    case StepKind::kMerge:
      return;
    case StepKind::kMean:
      return to.kernel(Part::kProjectorActivation, KernelId::kMeanRowsGradient,
                       {read(dy), write(dx)});
    case StepKind::kProduct:
      weight_backward(to, Part::kProjector, x, dy, weight_, bias_);
      if (dx.shape.rank > 0)
        to.kernel(Part::kProjector, KernelId::kLinearInputGradient,
                  {read(dy), to.parameter(weight_), write(dx), to.workspace()});
      return to.done(weight_);
    case StepKind::kGelu:
    case StepKind::kSilu:
      return to.kernel(Part::kProjectorActivation, KernelId::kGeluBackward, {read(x), update(dy)},
                       activation());
    case StepKind::kSwiglu:
      return to.kernel(Part::kProjectorActivation, KernelId::kSwigluBackward,
                       {read(x), read(dy), write(dx)});
  }
}

InVisionTower::InVisionTower(Sizes& sizes, const VisionShape& vision)
    : sizes_(sizes),
      hidden_(std::exchange(sizes.hidden, vision.hidden)),
      sequence_(std::exchange(sizes.sequence, vision.all_patches())),
      turn_layers_(std::exchange(sizes.turn_layers, 1)),
      has_pattern_(std::exchange(sizes.has_pattern, false)) {}

InVisionTower::~InVisionTower() {
  sizes_.hidden = hidden_;
  sizes_.sequence = sequence_;
  sizes_.turn_layers = turn_layers_;
  sizes_.has_pattern = has_pattern_;
}

}  // namespace zplan
