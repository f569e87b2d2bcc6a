#include "planner/lower/blocks/linear.h"

#include <numeric>
#include <string>

namespace zplan {

Linear::Linear(LayerMaker& maker, Part part, std::string_view tensor, const LinearShape& shape,
               OperatorSet of)
    : part_(part), cut_(shape.cut), of_(of) {
  const std::int64_t out = std::accumulate(shape.out.begin(), shape.out.end(), std::int64_t{0});
  const InitStd std = maker.naming.std();
  const bool is_cut = cut_ != Split::Kind::kNone;
  const Split split = by_rows() ? Split{cut_, {}} : is_cut ? Split{cut_, shape.out} : Split{};
  if (!maker.params.is_in_tower() && Lora::is_beside(maker.plan, part))
    lora_.emplace(maker, part, tensor,
                  LoraShape{.in = shape.in, .out = out, .split = split, .tokens = shape.tokens},
                  of);
  weight_ = maker.matrix(tensor, {shape.in, out}, by_rows() ? std.output : std.usual, split);
  if (!shape.bias) return;
  if (by_rows())
    bias_ = maker.vector(tensor, ".bias", out, Init::kZero);
  else
    bias_ = maker.params.add(
        {maker.naming.of(tensor, ".bias"), {out}, {out}, Init::kZero, 0, false, split, !is_cut});
}

View rounded_operand(Emission& to, Part part, Action action, const View& x) {
  if (!to.rounds_products()) return x;
  const View y = to.scratch("rounded." + std::string(name(action)), x.shape);
  Attributes blocks{action == Action::kRoundWeight ? kFp8Block : 1, kFp8Block};
  if (to.rounds_whole())
    blocks = {x.shape[0], x.shape[1], action == Action::kRoundGradient ? 1 : 0};
  to.kernel(part, action, KernelId::kRoundFp8, {read(x), write(y)}, blocks);
  return read(y);
}

View Linear::weight(LayerPass& to) const {
  return rounded(to, Action::kRoundWeight, to.matrix(part_, weight_));
}

void Linear::forward(LayerPass& to, const View& input, const View& y) const {
  const View x = rounded(to, Action::kRoundInput, input);
  if (by_rows()) {
    to.kernel(part_, KernelId::kMatmulForward,
              {read(x), weight(to), to.add_tiles(y), to.workspace()});
  } else if (bias_) {
    to.kernel(part_, KernelId::kLinearForward,
              {read(x), weight(to), to.parameter(bias_), write(y), to.workspace()});
  } else {
    const View sum = y.access == Access::kUpdate ? y : write(y);
    to.kernel(part_, KernelId::kMatmulForward, {read(x), weight(to), sum, to.workspace()});
  }
  if (lora_) lora_->forward(to, input, y);
}

void Linear::forward_and_gelu(LayerPass& to, const View& x, const View& y, const View& gelu) const {
  to.kernel(part_, KernelId::kLinearGeluForward,
            {read(x), to.matrix(part_, weight_), to.parameter(bias_), write(y), write(gelu),
             to.workspace()});
}

void Linear::weight_backward(LayerPass& to, const View& input, const View& dy) const {
  if (!to.trains(weight_)) return;
  const View x = rounded(to, Action::kRoundInput, input);
  if (bias_ && !by_rows()) {
    to.kernel(part_, Action::kWeightGradient, KernelId::kLinearWeightGradient,
              {read(x), read(dy), to.gradient(weight_), to.gradient(bias_), to.workspace()});
  } else {
    to.kernel(part_, Action::kWeightGradient, KernelId::kMatmulWeightGradient,
              {read(x), read(dy), to.gradient(weight_), to.workspace()});
  }
}

View Linear::rounded_gradient(LayerPass& to, const View& gradient) const {
  View dy;
  const auto round = [&] { dy = rounded(to, Action::kRoundGradient, gradient); };
  if (to.emits_inputs()) {
    round();
  } else {
    to.again(round);
  }
  return dy;
}

void Linear::gradient(LayerPass& to, const View& x, const View& gradient) const {
  if (to.emits_weights()) weight_backward(to, x, rounded_gradient(to, gradient));
  to.done(weight_);
}

void Linear::backward(LayerPass& to, const View& x, const View& gradient, const View& dx,
                      const View* before_gelu) const {
  const View dy = rounded_gradient(to, gradient);
  if (to.emits_weights()) weight_backward(to, x, dy);
  if (to.emits_inputs() && before_gelu != nullptr) {
    to.kernel(part_, KernelId::kGeluInputGradient,
              {read(dy), to.matrix(part_, weight_), read(*before_gelu), write(dx), to.workspace()});
  } else if (to.emits_inputs()) {
    to.kernel(part_, KernelId::kLinearInputGradient, {read(dy), weight(to), dx, to.workspace()});
  }
  if (lora_) lora_->backward(to, x, gradient, dx);
  to.done(weight_);
}

}  // namespace zplan
