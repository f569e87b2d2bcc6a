#include "planner/lower/decoder_layer.h"

namespace zplan {
namespace {

Role compute(Phase phase, Part part) { return {phase, part, Action::kCompute}; }
Role input_gradient(Part part) { return {Phase::kBackward, part, Action::kInputGradient}; }
Role weight_gradient(Part part) { return {Phase::kBackward, part, Action::kWeightGradient}; }

constexpr Lane kLane = Lane::kCompute;

}  // namespace

DecoderLayer::DecoderLayer(Stage& stage, const Segment& segment, std::size_t number,
                           Parameters& parameters, Gradients& gradients, Checkpoints& checkpoints)
    : s_(stage),
      segment_(segment),
      parameters_(parameters),
      gradients_(gradients),
      checkpoints_(checkpoints),
      activations_(stage, segment, number),
      attention_(stage),
      ranks_(stage) {}

View DecoderLayer::scratch(const char* name, std::int64_t width) const {
  return s_.transient(name, {s_.tokens(), width}, s_.compute());
}

// Uses of the layer ring by one forward, replay or backward.
std::int32_t DecoderLayer::fetches_per_pass() const {
  if (s_.tiles() > 1) return 2 * kOperatorsPerHalf * s_.tiles();
  return static_cast<std::int32_t>(s_.layout.layer_units.size());
}

// With those of a replay, which may end with the unit that backward begins with.
std::int32_t DecoderLayer::fetches_per_backward() const {
  const std::int32_t pass = fetches_per_pass();
  if (activations_.replays_layer()) return 2 * pass - (s_.tiles() == 1 ? 1 : 0);
  std::int32_t fetches = 0;
  std::optional<UnitIndex> at;
  const auto use = [&](Param param) {
    const UnitIndex unit = s_.layout.unit_of(param);
    if (at != unit) ++fetches;
    at = unit;
  };
  const auto replays = [&](LayerOperator op) { return activations_.replays(op); };
  if (replays(LayerOperator::kNorm)) use(Param::kNorm1Gain);
  if (replays(LayerOperator::kQkv)) use(Param::kQkvWeight);
  if (replays(LayerOperator::kProjection)) use(Param::kProjWeight);
  if (replays(LayerOperator::kNorm)) use(Param::kNorm2Gain);
  if (replays(LayerOperator::kFc1)) use(Param::kFc1Weight);
  const bool goes_on = at == s_.layout.unit_of(Param::kFc2Weight);
  return fetches + pass - (goes_on ? 1 : 0);
}

void DecoderLayer::start(std::int32_t fetches_per_member, bool upwards) {
  resident_.reset();
  shared_resident_.reset();
  open_.reset();
  shared_open_.reset();
  const std::int32_t gathers = s_.layout.owners ? s_.unit_layers() : 1;
  fetches_ = {.per_layer = gathers * fetches_per_member};
  opened_ = {.per_layer = gathers * fetches_per_pass()};
  upwards_ = upwards;
}

// Counted from the first iteration of the loop over the segment's layers.
Ordinal DecoderLayer::take(Uses& uses) const {
  const std::int32_t use = uses.next++;
  if (upwards_) return {use - uses.per_layer * segment_.first_unit, uses.per_layer, uses.per_tile};
  return {use + uses.per_layer * segment_.last_unit(), -uses.per_layer, uses.per_tile};
}

Ordinal DecoderLayer::once_per_layer() const {
  Uses uses;
  return take(uses);
}

// One half of the layer, tile by tile; what was fetched last is of another tile.
void DecoderLayer::each_tile(const std::function<void()>& emit) {
  if (s_.tiles() == 1) return emit();
  resident_.reset();
  for (Uses* uses : {&fetches_, &opened_}) uses->per_tile = kOperatorsPerHalf;
  const std::int32_t fetches = fetches_.next, opened = opened_.next;
  s_.each_tile(s_.tiles(), emit);
  const std::int32_t all = kOperatorsPerHalf * s_.tiles();
  fetches_ = {fetches_.per_layer, fetches + all, 0};
  opened_ = {opened_.per_layer, opened + (opened_.next > opened ? all : 0), 0};
}

View DecoderLayer::parameter(Phase phase, Param param) {
  const UnitIndex unit = s_.layout.unit_of(param);
  const bool shared = s_.layout.is_shared(unit);
  std::optional<Parameters::Resident>& at = shared ? shared_resident_ : resident_;
  if (!at || !parameters_.holds(*at, unit))
    at = parameters_.fetch(phase, unit, s_.layout.part[unit],
                           shared ? once_per_layer() : take(fetches_));
  return read(parameters_.view(*at, param));
}

View DecoderLayer::gradient(Param param) {
  const UnitIndex unit = s_.layout.unit_of(param);
  const bool shared = s_.layout.is_shared(unit);
  std::optional<Gradients::Open>& at = shared ? shared_open_ : open_;
  if (!at || at->unit != unit)
    at = gradients_.open(unit, shared ? once_per_layer() : take(opened_));
  return gradients_.view(*at, param);
}

// Closes the unit of `param` if no later part of this layer's backward contributes to it.
void DecoderLayer::done(Param param, bool last) {
  if (!open_ || s_.plan.gather == GatherUnit::kLayer) return;
  if (open_->unit != s_.layout.unit_of(param)) return;
  gradients_.close(*open_, last);
  open_.reset();
}

// What is still open at the end of the layer.
void DecoderLayer::finish(bool last) {
  for (std::optional<Gradients::Open>* at : {&open_, &shared_open_}) {
    if (*at) gradients_.close(**at, last);
    at->reset();
  }
}

void DecoderLayer::forward() {
  start(fetches_per_pass(), true);
  s_.each_layer(upwards_, [&] {
    checkpoints_.save();
    run(Phase::kForward, checkpoints_.input(), activations_.forward(), checkpoints_.output());
  });
}

void DecoderLayer::backward(const View& dx, bool last_micro) {
  const bool replays = activations_.replays_layer();
  start(fetches_per_backward(), false);
  s_.each_layer(upwards_, [&] {
    const View input = checkpoints_.load();
    const LayerActivations a = activations_.replay();
    if (replays) run(Phase::kRecompute, input, a, activations_.replay_output());
    if (activations_.replays_operators()) replay_operators(input, a);
    mlp_backward(a, dx, last_micro);
    attention_backward(input, a, dx, last_micro);
    if (s_.layout.owners) finish(last_micro);
  });
  finish(last_micro);
}

void DecoderLayer::run(Phase phase, const View& input, const LayerActivations& a,
                       const View& output) {
  attention_half(phase, input, a);
  mlp_half(phase, a, output);
}

// In the order of the layer: each finds its input kept or replayed.
void DecoderLayer::replay_operators(const View& input, const LayerActivations& a) {
  constexpr Phase kPhase = Phase::kRecompute;
  const auto replays = [&](LayerOperator op) { return activations_.replays(op); };
  if (replays(LayerOperator::kNorm))
    norm(kPhase, Part::kAttentionNorm, input, Param::kNorm1Gain, Param::kNorm1Bias, a.norm1,
         a.mean1, a.rstd1);
  if (replays(LayerOperator::kQkv)) {
    const View x = ranks_.gathered(kPhase, Part::kAttentionNorm, a.norm1, "norm.gathered");
    linear(kPhase, Part::kQkv, x, Param::kQkvWeight, Param::kQkvBias, a.qkv);
    attention_.rotate(kPhase, a);
  }
  if (replays(LayerOperator::kAttention)) attention_.forward(kPhase, a);
  if (replays(LayerOperator::kProjection)) {
    partial_product(kPhase, Part::kProjection, a.attention, Param::kProjWeight, a.projection);
    const View sum = ranks_.summed(kPhase, Part::kProjection, a.projection, "projection.sum");
    residual(kPhase, Part::kAttentionResidual, input, sum, Param::kProjBias, a.mask1, a.middle);
  }
  if (replays(LayerOperator::kNorm))
    norm(kPhase, Part::kMlpNorm, a.middle, Param::kNorm2Gain, Param::kNorm2Bias, a.norm2, a.mean2,
         a.rstd2);
  replay_mlp(a);
}

void DecoderLayer::replay_mlp(const LayerActivations& a) {
  const bool product = activations_.replays(LayerOperator::kFc1);
  const bool activation = activations_.replays(LayerOperator::kActivation);
  if (!product) {
    if (activation) gelu(Phase::kRecompute, a);
    return;
  }
  const View x = ranks_.gathered(Phase::kRecompute, Part::kMlpNorm, a.norm2, "norm.gathered");
  if (activation) return fc1_and_gelu(Phase::kRecompute, x, a);
  linear(Phase::kRecompute, Part::kFc1, x, Param::kFc1Weight, Param::kFc1Bias, a.fc1);
}

void DecoderLayer::norm(Phase phase, Part part, const View& x, Param gain, Param bias,
                        const View& y, const View& mean, const View& rstd) {
  if (s_.model.norm == Norm::kRmsNorm) {
    s_.out.kernel(compute(phase, part), kLane, KernelId::kRmsNormForward,
                  {read(x), parameter(phase, gain), write(y), write(rstd)});
  } else {
    s_.out.kernel(compute(phase, part), kLane, KernelId::kLayerNormForward,
                  {read(x), parameter(phase, gain), parameter(phase, bias), write(y), write(mean),
                   write(rstd)});
  }
}

void DecoderLayer::linear(Phase phase, Part part, const View& x, Param weight, Param bias,
                          const View& y) {
  if (s_.layout.has(bias)) {
    s_.out.kernel(
        compute(phase, part), kLane, KernelId::kLinearForward,
        {read(x), parameter(phase, weight), parameter(phase, bias), write(y), s_.workspace});
  } else {
    s_.out.kernel(compute(phase, part), kLane, KernelId::kMatmulForward,
                  {read(x), parameter(phase, weight), write(y), s_.workspace});
  }
}

// Tiles add to what the ones before them left.
void DecoderLayer::partial_product(Phase phase, Part part, const View& x, Param weight,
                                   const View& y) {
  s_.out.kernel(compute(phase, part), kLane, KernelId::kMatmulForward,
                {read(x), parameter(phase, weight), access(y, tile_access()), s_.workspace});
}

void DecoderLayer::clear_for_tiles(Phase phase, Part part, const View& sum) {
  if (s_.tiles() > 1)
    s_.out.kernel({phase, part, Action::kZero}, kLane, KernelId::kFillZero, {write(sum)});
}

void DecoderLayer::residual(Phase phase, Part part, const View& x, const View& y, Param bias,
                            const View& mask, const View& out) {
  if (s_.plan.dropout) {
    dropout_residual(phase, part, x, y, bias, mask, out);
  } else if (s_.layout.has(bias)) {
    s_.out.kernel(compute(phase, part), kLane, KernelId::kBiasResidualAdd,
                  {read(x), read(y), parameter(phase, bias), write(out)});
  } else {
    s_.out.kernel(compute(phase, part), kLane, KernelId::kResidualAdd,
                  {read(x), read(y), write(out)});
  }
}

void DecoderLayer::dropout_residual(Phase phase, Part part, const View& x, const View& y,
                                    Param bias, const View& mask, const View& out) {
  const Role role = compute(phase, part);
  if (s_.layout.has(bias)) {
    s_.out.kernel(role, kLane, KernelId::kDropoutResidualAdd,
                  {read(x), read(y), write(out), write(mask), parameter(phase, bias)});
  } else {
    s_.out.kernel(role, kLane, KernelId::kDropoutResidualAdd,
                  {read(x), read(y), write(out), write(mask)});
  }
}

// The gradient of what a half of the layer adds to its input, before its dropout.
View DecoderLayer::added_gradient(Part part, const View& dx, const View& mask) {
  if (!s_.plan.dropout) return dx;
  const View added = s_.transient("d.added", dx.shape, dx.dtype);
  s_.out.kernel({Phase::kBackward, part, Action::kDrop}, kLane, KernelId::kDropoutBackward,
                {read(dx), read(mask), write(added)});
  return added;
}

void DecoderLayer::attention_half(Phase phase, const View& x, const LayerActivations& a) {
  norm(phase, Part::kAttentionNorm, x, Param::kNorm1Gain, Param::kNorm1Bias, a.norm1, a.mean1,
       a.rstd1);
  const View all = ranks_.gathered(phase, Part::kAttentionNorm, a.norm1, "norm.gathered");
  clear_for_tiles(phase, Part::kProjection, a.projection);
  each_tile([&] {
    linear(phase, Part::kQkv, all, Param::kQkvWeight, Param::kQkvBias, a.qkv);
    attention_.rotate(phase, a);
    attention_.forward(phase, a);
    partial_product(phase, Part::kProjection, a.attention, Param::kProjWeight, a.projection);
  });
  const View sum = ranks_.summed(phase, Part::kProjection, a.projection, "projection.sum");
  middle(phase, x, sum, a);
}

// There are kernels for a LayerNorm after a bias and for an RMSNorm without one. What they read
// must be at hand together; a ring keeps one unit.
bool DecoderLayer::fuses_middle() const {
  const Layout& layout = s_.layout;
  const bool bias = layout.has(Param::kProjBias);
  if (!s_.kernels.fused_neighbours || s_.plan.dropout ||
      bias != (s_.model.norm == Norm::kLayerNorm))
    return false;
  return !bias || parameters_.are_resident() ||
         layout.unit_of(Param::kProjBias) == layout.unit_of(Param::kNorm2Gain);
}

// From the sum of the projection to the normalised input of the MLP.
void DecoderLayer::middle(Phase phase, const View& x, const View& sum, const LayerActivations& a) {
  if (!fuses_middle()) {
    residual(phase, Part::kAttentionResidual, x, sum, Param::kProjBias, a.mask1, a.middle);
    norm(phase, Part::kMlpNorm, a.middle, Param::kNorm2Gain, Param::kNorm2Bias, a.norm2, a.mean2,
         a.rstd2);
  } else if (s_.model.norm == Norm::kRmsNorm) {
    s_.out.kernel(compute(phase, Part::kMlpNorm), kLane, KernelId::kResidualRmsNormForward,
                  {read(x), read(sum), parameter(phase, Param::kNorm2Gain), write(a.middle),
                   write(a.norm2), write(a.rstd2)});
  } else {
    s_.out.kernel(compute(phase, Part::kMlpNorm), kLane, KernelId::kResidualLayerNormForward,
                  {read(x), read(sum), parameter(phase, Param::kProjBias),
                   parameter(phase, Param::kNorm2Gain), parameter(phase, Param::kNorm2Bias),
                   write(a.middle), write(a.norm2), write(a.mean2), write(a.rstd2)});
  }
}

void DecoderLayer::fc1_and_gelu(Phase phase, const View& x, const LayerActivations& a) {
  const bool gated = s_.model.gated_mlp;
  if (s_.kernels.fused_neighbours && !gated && s_.layout.has(Param::kFc1Bias)) {
    s_.out.kernel(compute(phase, Part::kFc1), kLane, KernelId::kLinearGeluForward,
                  {read(x), parameter(phase, Param::kFc1Weight), parameter(phase, Param::kFc1Bias),
                   write(a.fc1), write(a.gelu), s_.workspace});
    return;
  }
  linear(phase, Part::kFc1, x, Param::kFc1Weight, Param::kFc1Bias, a.fc1);
  gelu(phase, a);
}

void DecoderLayer::gelu(Phase phase, const LayerActivations& a) {
  s_.out.kernel(compute(phase, Part::kGelu), kLane,
                s_.model.gated_mlp ? KernelId::kSwigluForward : KernelId::kGeluForward,
                {read(a.fc1), write(a.gelu)});
}

void DecoderLayer::mlp_half(Phase phase, const LayerActivations& a, const View& output) {
  const View all = ranks_.gathered(phase, Part::kMlpNorm, a.norm2, "norm.gathered");
  clear_for_tiles(phase, Part::kFc2, a.fc2);
  each_tile([&] {
    fc1_and_gelu(phase, all, a);
    partial_product(phase, Part::kFc2, a.gelu, Param::kFc2Weight, a.fc2);
  });
  const View sum = ranks_.summed(phase, Part::kFc2, a.fc2, "fc2.sum");
  residual(phase, Part::kMlpResidual, a.middle, sum, Param::kFc2Bias, a.mask2, output);
}

// Of a bias added to the rank's tokens.
void DecoderLayer::bias_gradient(Part part, const View& dx, Param bias) {
  if (!s_.layout.has(bias)) return;
  s_.out.kernel({Phase::kBackward, part, Action::kBiasGradient}, kLane, KernelId::kBiasGradient,
                {read(dx), gradient(bias), s_.workspace});
}

// y = x w with w split by rows; all ranks and tiles have the same dy.
void DecoderLayer::row_weight_gradient(Part part, const View& x, const View& dy, Param weight) {
  s_.out.kernel(weight_gradient(part), kLane, KernelId::kMatmulWeightGradient,
                {read(x), read(dy), gradient(weight), s_.workspace});
}

void DecoderLayer::row_product_backward(Part part, const View& x, const View& dy, Param weight,
                                        const View& dx) {
  row_weight_gradient(part, x, dy, weight);
  s_.out.kernel(input_gradient(part), kLane, KernelId::kLinearInputGradient,
                {read(dy), parameter(Phase::kBackward, weight), write(dx), s_.workspace});
}

// y = x w + bias, split by columns; ranks and tiles add to dx.
void DecoderLayer::column_product_backward(Part part, const View& x, const View& dy, Param weight,
                                           Param bias, const View& dx) {
  if (s_.layout.has(bias)) {
    s_.out.kernel(weight_gradient(part), kLane, KernelId::kLinearWeightGradient,
                  {read(x), read(dy), gradient(weight), gradient(bias), s_.workspace});
  } else {
    s_.out.kernel(weight_gradient(part), kLane, KernelId::kMatmulWeightGradient,
                  {read(x), read(dy), gradient(weight), s_.workspace});
  }
  s_.out.kernel(
      input_gradient(part), kLane, KernelId::kLinearInputGradient,
      {read(dy), parameter(Phase::kBackward, weight), access(dx, tile_access()), s_.workspace});
}

// The gradient of the first product of the MLP, from that of the second.
View DecoderLayer::fc2_backward(const LayerActivations& a, const View& dy, bool last) {
  const View dfc = scratch("d.fc", s_.ffn());
  const bool fuses = s_.kernels.fused_neighbours && !s_.model.gated_mlp;
  if (!fuses) {
    row_product_backward(Part::kFc2, a.gelu, dy, Param::kFc2Weight, dfc);
    done(Param::kFc2Weight, last);
    return gelu_backward(a, dfc);
  }
  row_weight_gradient(Part::kFc2, a.gelu, dy, Param::kFc2Weight);
  s_.out.kernel(input_gradient(Part::kFc2), kLane, KernelId::kGeluInputGradient,
                {read(dy), parameter(Phase::kBackward, Param::kFc2Weight), read(a.fc1), write(dfc),
                 s_.workspace});
  done(Param::kFc2Weight, last);
  return dfc;
}

// The gradient of the first product of the MLP, from that of what follows it.
View DecoderLayer::gelu_backward(const LayerActivations& a, const View& dfc) {
  if (!s_.model.gated_mlp) {
    s_.out.kernel(input_gradient(Part::kGelu), kLane, KernelId::kGeluBackward,
                  {read(a.fc1), update(dfc)});
    return dfc;
  }
  const View dup = scratch("d.up", s_.up_width());
  s_.out.kernel(input_gradient(Part::kGelu), kLane, KernelId::kSwigluBackward,
                {read(a.fc1), read(dfc), write(dup)});
  return dup;
}

void DecoderLayer::norm_backward(Part part, const View& dy, const View& x, const View& mean,
                                 const View& rstd, Param gain, Param bias, const View& dx) {
  if (s_.model.norm == Norm::kRmsNorm) {
    s_.out.kernel(input_gradient(part), kLane, KernelId::kRmsNormBackward,
                  {read(dy), read(x), read(rstd), parameter(Phase::kBackward, gain), update(dx),
                   gradient(gain), s_.workspace});
  } else {
    s_.out.kernel(input_gradient(part), kLane, KernelId::kLayerNormBackward,
                  {read(dy), read(x), read(mean), read(rstd), parameter(Phase::kBackward, gain),
                   update(dx), gradient(gain), gradient(bias), s_.workspace});
  }
}

void DecoderLayer::mlp_backward(const LayerActivations& a, const View& dx, bool last) {
  const View added = added_gradient(Part::kMlpResidual, dx, a.mask2);
  const View dy = ranks_.gathered(Phase::kBackward, Part::kMlpResidual, added, "d.gathered");
  const View x = ranks_.gathered(Phase::kBackward, Part::kMlpNorm, a.norm2, "norm.gathered");
  const View dnorm = scratch("d.norm", s_.h());
  bias_gradient(Part::kFc2, added, Param::kFc2Bias);
  clear_for_tiles(Phase::kBackward, Part::kMlpNorm, dnorm);
  each_tile([&] {
    const View dup = fc2_backward(a, dy, last);
    column_product_backward(Part::kFc1, x, dup, Param::kFc1Weight, Param::kFc1Bias, dnorm);
    if (s_.tiles() > 1) done(Param::kFc1Weight, last);
  });
  const View sum = ranks_.summed(Phase::kBackward, Part::kMlpNorm, dnorm, "d.norm.sum");
  norm_backward(Part::kMlpNorm, sum, a.middle, a.mean2, a.rstd2, Param::kNorm2Gain,
                Param::kNorm2Bias, dx);
  done(Param::kFc1Weight, last);
}

void DecoderLayer::attention_backward(const View& input, const LayerActivations& a, const View& dx,
                                      bool last) {
  const View added = added_gradient(Part::kAttentionResidual, dx, a.mask1);
  const View dy = ranks_.gathered(Phase::kBackward, Part::kAttentionResidual, added, "d.gathered");
  const View x = ranks_.gathered(Phase::kBackward, Part::kAttentionNorm, a.norm1, "norm.gathered");
  const View dnorm = scratch("d.norm", s_.h());
  bias_gradient(Part::kProjection, added, Param::kProjBias);
  clear_for_tiles(Phase::kBackward, Part::kAttentionNorm, dnorm);
  each_tile([&] {
    const View dattention = scratch("d.attention", s_.attention_width());
    const View dqkv = scratch("d.qkv", s_.qkv_width());
    if (activations_.replays_attention()) attention_.replay_probabilities(a);
    row_product_backward(Part::kProjection, a.attention, dy, Param::kProjWeight, dattention);
    done(Param::kProjWeight, last);
    attention_.backward(a, dattention, dqkv);
    column_product_backward(Part::kQkv, x, dqkv, Param::kQkvWeight, Param::kQkvBias, dnorm);
    if (s_.tiles() > 1) done(Param::kQkvWeight, last);
  });
  const View sum = ranks_.summed(Phase::kBackward, Part::kAttentionNorm, dnorm, "d.norm.sum");
  norm_backward(Part::kAttentionNorm, sum, input, a.mean1, a.rstd1, Param::kNorm1Gain,
                Param::kNorm1Bias, dx);
  done(Param::kQkvWeight, last);
}

}  // namespace zplan
