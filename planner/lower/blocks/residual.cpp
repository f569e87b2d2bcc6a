#include "planner/lower/blocks/residual.h"

namespace zplan {

Residual::Residual(LayerMaker& maker, Part part, OperatorSet of, const char* mask,
                   std::int64_t factor)
    : part_(part), of_(of), fuses_neighbours_(maker.kernels.fused_neighbours), factor_(factor) {
  if (maker.plan.dropout)
    mask_ = maker.values.add(
        {.name = mask, .shape = {maker.local_tokens(), maker.h()}, .dtype = DType::kU8, .of = of});
}

void Residual::scale(LayerPass& to, const View& x) const {
  if (!scales()) return;
  to.step(1, [&] { to.kernel(part_, KernelId::kScale, {update(x)}, {factor_, kFactorUnit}); });
}

void Residual::forward(LayerPass& to, const View& x, const View& y, Param bias,
                       const View& out) const {
  if (!to.emits(of_)) return;
  scale(to, y);
  if (mask_ && bias) {
    to.kernel(part_, KernelId::kDropoutResidualAdd,
              {read(x), read(y), write(out), write(to[mask_]), to.parameter(bias)},
              to.drawn_tokens());
  } else if (mask_) {
    to.kernel(part_, KernelId::kDropoutResidualAdd,
              {read(x), read(y), write(out), write(to[mask_])}, to.drawn_tokens());
  } else if (bias) {
    to.kernel(part_, KernelId::kBiasResidualAdd,
              {read(x), read(y), to.parameter(bias), write(out)});
  } else {
    to.kernel(part_, KernelId::kResidualAdd, {read(x), read(y), write(out)});
  }
}

// There are kernels for a LayerNorm after a bias and for an RMSNorm without one. What they read
// must be at hand together.
bool Residual::fuses(const LayerPass& to, Param bias, const NormBlock& norm) const {
  if (!fuses_neighbours_ || mask_ || scales() || !norm.fuses_residual(static_cast<bool>(bias)))
    return false;
  return to.emits_all() && (!bias || to.are_together(bias, norm.gain()));
}

void Residual::forward_and_norm(LayerPass& to, const View& x, const View& y, Param bias,
                                const View& out, const NormBlock& norm,
                                const Normed& result) const {
  if (fuses(to, bias, norm)) return norm.forward_of_sum(to, x, y, bias, out, result);
  forward(to, x, y, bias, out);
  if (to.emits(LayerOperator::kNorm)) norm.forward(to, out, result);
}

View Residual::backward(LayerPass& to, const View& dout, bool stays) const {
  // The layer's gradient, which is dout, changes before the second part of a backward.
  if (!mask_ && !scales() && (!stays || to.backward_part() == Backward::kWhole)) return dout;
  const View dy = to.handed(part_, "d.added", dout.shape, false);
  if (!to.emits_inputs()) return dy;
  if (mask_) {
    to.kernel(part_, Action::kDrop, KernelId::kDropoutBackward,
              {read(dout), read(to[mask_]), write(dy)});
  } else {
    to.move(part_, dout, dy);
  }
  scale(to, dy);
  return dy;
}

}  // namespace zplan
