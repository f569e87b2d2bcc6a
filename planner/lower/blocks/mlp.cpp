#include "planner/lower/blocks/mlp.h"

namespace zplan {
namespace {

// Returns the operators whose replay gives the first product.
OperatorSet first_of(const MlpShape& shape) { return LayerOperator::kFc1 | shape.whole; }

std::optional<TokenGate> make_token_gate(LayerMaker& maker, const MlpShape& shape) {
  if (!shape.token_gate) return std::nullopt;
  return TokenGate(maker, first_of(shape));
}

std::int64_t first_products(const MlpShape& shape) { return shape.gated ? 2 : 1; }

Linear make_fc1(LayerMaker& maker, const MlpShape& shape) {
  std::vector<std::int64_t> out(static_cast<std::size_t>(first_products(shape)), shape.width);
  return {maker,
          Part::kFc1,
          shape.first,
          {.in = maker.h(), .out = std::move(out), .bias = shape.bias},
          first_of(shape)};
}

ValueSpec gradient(const LayerMaker& maker, const MlpShape& shape, const char* name,
                   std::int64_t width) {
  return {.name = name,
          .shape = {maker.tokens(), width},
          .dtype = maker.compute(),
          .in_backward = shape.is_second ? Read::kNever : Read::kLate};
}

}  // namespace

Mlp::Mlp(LayerMaker& maker, const MlpShape& shape)
    : width_(shape.width / maker.pieces()),
      gated_(shape.gated),
      fuses_neighbours_(maker.kernels.fused_neighbours && !shape.gated && !shape.token_gate &&
                        shape.activation.function == ActivationFunction::kOwn),
      activation_(shape.activation.attributes()),
      whole_(shape.whole),
      fc1_(make_fc1(maker, shape)),
      factors_({{width_, shape.factors.gate}, {width_, shape.factors.up}}),
      token_gate_(make_token_gate(maker, shape)),
      fc1_out_(maker.values.add({.name = "fc1",
                                 .shape = {maker.tokens(), first_products(shape) * width_},
                                 .dtype = maker.compute(),
                                 .of = first_of(shape),
                                 .tiled = true})),
      gelu_(add_input(maker, Part::kFc2,
                      {.name = "gelu",
                       .shape = {maker.tokens(), width_},
                       .dtype = maker.compute(),
                       .of = LayerOperator::kActivation | shape.whole,
                       .tiled = true,
                       .in_backward = Read::kFirst},
                      kept_)),
      fc2_(maker, Part::kFc2, shape.second, shape.second, shape.width, shape.bias, shape.whole),
      dgelu_(maker.values.gradient(gradient(maker, shape, "d.fc", width_))) {
  if (gated_) dfc1_ = maker.values.gradient(gradient(maker, shape, "d.up", 2 * width_));
}

void Mlp::activate(LayerPass& to) const {
  to.kernel(Part::kGelu, gated_ ? KernelId::kSwigluForward : KernelId::kGeluForward,
            {read(to[fc1_out_]), write(to[gelu_])}, activation_);
  if (token_gate_) token_gate_->pass(to, to[gelu_]);
}

void Mlp::forward(LayerPass& to, const View& x) const {
  const bool product = to.emits(LayerOperator::kFc1 | whole_);
  const bool activates = to.emits(LayerOperator::kActivation | whole_);
  if (product && token_gate_) token_gate_->forward(to, x);
  const bool fuses = fuses_neighbours_ && fc1_.bias() && fc1_.stands_alone();
  if (product && activates && fuses) {
    fc1_.forward_and_gelu(to, x, to[fc1_out_], to[gelu_]);
  } else {
    if (product) {
      fc1_.forward(to, x, to[fc1_out_]);
      if (gated_) factors_.multiply(to, Part::kFc1, to[fc1_out_]);
    }
    if (activates) activate(to);
  }
  if (activates) kept_.keep(to, to[gelu_]);
  if (to.emits(whole_)) fc2_.linear.forward(to, to[gelu_], to[partial()]);
}

// The gradient of the first product from that of what follows it.
View Mlp::activation_backward(LayerPass& to, const View& dgelu) const {
  const View fc1 = read(to[fc1_out_]);
  if (!gated_) {
    if (to.emits_inputs())
      to.kernel(Part::kGelu, KernelId::kGeluBackward, {fc1, update(dgelu)}, activation_);
    return dgelu;
  }
  const View dfc1 = to.handed(Part::kFc1, dfc1_.name.c_str(), dfc1_.shape, true);
  if (to.emits_inputs())
    to.kernel(Part::kGelu, KernelId::kSwigluBackward, {fc1, read(dgelu), write(dfc1)}, activation_);
  if (to.emits_inputs()) factors_.multiply(to, Part::kFc1, dfc1);
  return dfc1;
}

void Mlp::backward(LayerPass& to, const View& x, const View& dy, const View& dx) const {
  View dfc1 = gated_ ? to.scratch(dgelu_.name, dgelu_.shape)
                     : to.handed(Part::kFc1, dgelu_.name.c_str(), dgelu_.shape, true);
  const View gelu = kept_.read(to, to[gelu_], to.emits_weights() || token_gate_);
  if (fuses_neighbours_ && fc2_.linear.stands_alone()) {
    fc2_.linear.backward(to, gelu, dy, dfc1, &to[fc1_out_]);
  } else {
    fc2_.linear.backward(to, gelu, dy, write(dfc1));
    if (token_gate_) token_gate_->backward(to, x, gelu, dfc1, to.add_tiles(dx));
    dfc1 = activation_backward(to, dfc1);
  }
  fc1_.backward(to, x, dfc1, token_gate_ ? update(dx) : to.add_tiles(dx));
}

}  // namespace zplan
