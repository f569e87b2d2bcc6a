#include "planner/lower/decoder_layer.h"

namespace zplan {
namespace {

// The same bytes seen as [b, s, ...] for the attention kernels.
View reshaped(View v, Shape shape) {
  v.shape = shape;
  return v;
}

Role compute(Phase phase, Part part) { return {phase, part, Action::kCompute}; }
Role input_gradient(Part part) { return {Phase::kBackward, part, Action::kInputGradient}; }
Role weight_gradient(Part part) { return {Phase::kBackward, part, Action::kWeightGradient}; }

constexpr Lane kLane = Lane::kCompute;

}  // namespace

DecoderLayer::DecoderLayer(Stage& stage, Parameters& parameters, Gradients& gradients,
                           Activations& activations)
    : s_(stage), parameters_(parameters), gradients_(gradients), activations_(activations) {}

View DecoderLayer::scratch(const char* name, std::int64_t width) const {
  const Shape shape{s_.tokens(), width};
  const BufferId id = s_.body.get({.name = name,
                                   .slot_size = size_of(s_.compute()) * shape.elements(),
                                   .category = Category::kActivations,
                                   .dtype = s_.compute()});
  return view_of(id, s_.compute(), shape);
}

void DecoderLayer::start(std::int32_t fetches_per_layer, bool upwards) {
  resident_.reset();
  open_.reset();
  fetches_ = opened_ = 0;
  fetches_per_layer_ = fetches_per_layer;
  upwards_ = upwards;
}

// The use-th of per_layer uses in the iteration of the loop over the stage's layers.
Ordinal DecoderLayer::ordinal(std::int32_t per_layer, std::int32_t use) const {
  if (upwards_) return {use - per_layer * s_.first_layer, per_layer};
  return {use + per_layer * s_.last_layer(), -per_layer};
}

View DecoderLayer::parameter(Phase phase, Param param) {
  const UnitIndex unit = s_.layout.unit_of(param);
  if (!resident_ || resident_->unit != unit)
    resident_ = parameters_.fetch(phase, unit, s_.layout.part[unit],
                                  ordinal(fetches_per_layer_, fetches_++));
  return read(parameters_.view(*resident_, param));
}

View DecoderLayer::gradient(Param param) {
  const UnitIndex unit = s_.layout.unit_of(param);
  const auto units = static_cast<std::int32_t>(s_.layout.layer_units.size());
  if (!open_ || open_->unit != unit) open_ = gradients_.open(unit, ordinal(units, opened_++));
  return gradients_.view(*open_, param);
}

// Closes the unit of `param` if no later part of this layer's backward contributes to it.
void DecoderLayer::done(Param param, bool last) {
  const bool whole_layer = s_.plan.gather == GatherUnit::kLayer;
  if (whole_layer && param != Param::kQkvWeight) return;
  gradients_.close(*open_, last);
  open_.reset();
}

void DecoderLayer::forward() {
  start(static_cast<std::int32_t>(s_.layout.layer_units.size()), true);
  activations_.save_checkpoint();
  run(Phase::kForward, activations_.input(), activations_.forward(), activations_.output());
}

void DecoderLayer::backward(const View& dx, bool last_micro) {
  const auto units = static_cast<std::int32_t>(s_.layout.layer_units.size());
  // A replay uses every unit once more, except the one it ends with, which backward begins with.
  start(activations_.recomputes() ? 2 * units - 1 : units, false);
  const View input = activations_.load_checkpoint();
  if (activations_.recomputes())
    run(Phase::kRecompute, input, activations_.replay(), activations_.replay_output());
  mlp_backward(activations_.replay(), dx, last_micro);
  attention_backward(input, activations_.replay(), dx, last_micro);
}

void DecoderLayer::run(Phase phase, const View& input, const LayerActivations& a,
                       const View& output) {
  attention_half(phase, input, a);
  mlp_half(phase, a, output);
}

void DecoderLayer::attention_half(Phase phase, const View& x, const LayerActivations& a) {
  const auto param = [&](Param p) { return parameter(phase, p); };
  const std::int64_t heads = s_.model.heads;
  const Shape split{s_.b(), s_.s(), heads, s_.h() / heads};
  const Shape split3{s_.b(), s_.s(), 3, heads, s_.h() / heads};
  s_.out.kernel(compute(phase, Part::kAttentionNorm), kLane, KernelId::kLayerNormForward,
                {read(x), param(Param::kNorm1Gain), param(Param::kNorm1Bias), write(a.norm1),
                 write(a.mean1), write(a.rstd1)});
  s_.out.kernel(compute(phase, Part::kQkv), kLane, KernelId::kLinearForward,
                {read(a.norm1), param(Param::kQkvWeight), param(Param::kQkvBias), write(a.qkv),
                 s_.workspace});
  s_.out.kernel(compute(phase, Part::kAttention), kLane, KernelId::kAttentionForward,
                {read(reshaped(a.qkv, split3)), write(reshaped(a.attention, split)), write(a.lse),
                 s_.workspace});
  s_.out.kernel(compute(phase, Part::kProjection), kLane, KernelId::kLinearForward,
                {read(a.attention), param(Param::kProjWeight), param(Param::kProjBias),
                 write(a.projection), s_.workspace});
  s_.out.kernel(compute(phase, Part::kAttentionResidual), kLane, KernelId::kResidualAdd,
                {read(x), read(a.projection), write(a.middle)});
}

void DecoderLayer::mlp_half(Phase phase, const LayerActivations& a, const View& output) {
  const auto param = [&](Param p) { return parameter(phase, p); };
  s_.out.kernel(compute(phase, Part::kMlpNorm), kLane, KernelId::kLayerNormForward,
                {read(a.middle), param(Param::kNorm2Gain), param(Param::kNorm2Bias), write(a.norm2),
                 write(a.mean2), write(a.rstd2)});
  s_.out.kernel(compute(phase, Part::kFc1), kLane, KernelId::kLinearForward,
                {read(a.norm2), param(Param::kFc1Weight), param(Param::kFc1Bias), write(a.fc1),
                 s_.workspace});
  s_.out.kernel(compute(phase, Part::kGelu), kLane, KernelId::kGeluForward,
                {read(a.fc1), write(a.gelu)});
  s_.out.kernel(
      compute(phase, Part::kFc2), kLane, KernelId::kLinearForward,
      {read(a.gelu), param(Param::kFc2Weight), param(Param::kFc2Bias), write(a.fc2), s_.workspace});
  s_.out.kernel(compute(phase, Part::kMlpResidual), kLane, KernelId::kResidualAdd,
                {read(a.middle), read(a.fc2), write(output)});
}

void DecoderLayer::mlp_backward(const LayerActivations& a, const View& dx, bool last) {
  const auto param = [&](Param p) { return parameter(Phase::kBackward, p); };
  const View dfc = scratch("d.fc", s_.ffn());
  const View dnorm = scratch("d.norm", s_.h());
  s_.out.kernel(weight_gradient(Part::kFc2), kLane, KernelId::kLinearWeightGradient,
                {read(a.gelu), read(dx), gradient(Param::kFc2Weight), gradient(Param::kFc2Bias),
                 s_.workspace});
  s_.out.kernel(input_gradient(Part::kFc2), kLane, KernelId::kLinearInputGradient,
                {read(dx), param(Param::kFc2Weight), write(dfc), s_.workspace});
  done(Param::kFc2Weight, last);
  s_.out.kernel(input_gradient(Part::kGelu), kLane, KernelId::kGeluBackward,
                {read(a.fc1), update(dfc)});
  s_.out.kernel(weight_gradient(Part::kFc1), kLane, KernelId::kLinearWeightGradient,
                {read(a.norm2), read(dfc), gradient(Param::kFc1Weight), gradient(Param::kFc1Bias),
                 s_.workspace});
  s_.out.kernel(input_gradient(Part::kFc1), kLane, KernelId::kLinearInputGradient,
                {read(dfc), param(Param::kFc1Weight), write(dnorm), s_.workspace});
  s_.out.kernel(
      input_gradient(Part::kMlpNorm), kLane, KernelId::kLayerNormBackward,
      {read(dnorm), read(a.middle), read(a.mean2), read(a.rstd2), param(Param::kNorm2Gain),
       update(dx), gradient(Param::kNorm2Gain), gradient(Param::kNorm2Bias), s_.workspace});
  done(Param::kFc1Weight, last);
}

void DecoderLayer::attention_backward(const View& input, const LayerActivations& a, const View& dx,
                                      bool last) {
  const auto param = [&](Param p) { return parameter(Phase::kBackward, p); };
  const std::int64_t heads = s_.model.heads;
  const Shape split{s_.b(), s_.s(), heads, s_.h() / heads};
  const Shape split3{s_.b(), s_.s(), 3, heads, s_.h() / heads};
  const View dattention = scratch("d.attention", s_.h());
  const View dqkv = scratch("d.qkv", 3 * s_.h());
  const View dnorm = scratch("d.norm", s_.h());
  s_.out.kernel(weight_gradient(Part::kProjection), kLane, KernelId::kLinearWeightGradient,
                {read(a.attention), read(dx), gradient(Param::kProjWeight),
                 gradient(Param::kProjBias), s_.workspace});
  s_.out.kernel(input_gradient(Part::kProjection), kLane, KernelId::kLinearInputGradient,
                {read(dx), param(Param::kProjWeight), write(dattention), s_.workspace});
  done(Param::kProjWeight, last);
  s_.out.kernel(input_gradient(Part::kAttention), kLane, KernelId::kAttentionBackward,
                {read(reshaped(dattention, split)), read(reshaped(a.qkv, split3)),
                 read(reshaped(a.attention, split)), read(a.lse), write(reshaped(dqkv, split3)),
                 s_.workspace});
  s_.out.kernel(weight_gradient(Part::kQkv), kLane, KernelId::kLinearWeightGradient,
                {read(a.norm1), read(dqkv), gradient(Param::kQkvWeight), gradient(Param::kQkvBias),
                 s_.workspace});
  s_.out.kernel(input_gradient(Part::kQkv), kLane, KernelId::kLinearInputGradient,
                {read(dqkv), param(Param::kQkvWeight), write(dnorm), s_.workspace});
  s_.out.kernel(
      input_gradient(Part::kAttentionNorm), kLane, KernelId::kLayerNormBackward,
      {read(dnorm), read(input), read(a.mean1), read(a.rstd1), param(Param::kNorm1Gain), update(dx),
       gradient(Param::kNorm1Gain), gradient(Param::kNorm1Bias), s_.workspace});
  done(Param::kQkvWeight, last);
}

}  // namespace zplan
