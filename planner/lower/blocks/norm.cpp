#include "planner/lower/blocks/norm.h"

namespace zplan {

NormBlock::NormBlock(Maker& maker, const NormKind& kind, Part part, std::string_view tensor,
                     std::int64_t width, bool summed)
    : norm_(kind.norm), part_(part), epsilon_(epsilon_attribute(kind.epsilon)) {
  if (norm_ != Norm::kLayerNormFixed)
    gain_ = maker.vector(tensor, ".weight", width, Init::kOne, summed);
  if (norm_ == Norm::kLayerNorm) bias_ = maker.vector(tensor, ".bias", width, Init::kZero, summed);
}

void NormBlock::forward(Emission& to, const View& x, const Normed& result) const {
  const auto& [y, mean, rstd] = result;
  if (!has_mean()) {
    to.kernel(part_, KernelId::kRmsNormForward,
              {read(x), to.parameter(gain_), write(y), write(rstd)}, {epsilon_});
  } else if (has_bias()) {
    to.kernel(
        part_, KernelId::kLayerNormForward,
        {read(x), to.parameter(gain_), to.parameter(bias_), write(y), write(mean), write(rstd)},
        {epsilon_});
  } else if (gain_) {
    to.kernel(part_, KernelId::kCentredNormForward,
              {read(x), write(y), write(mean), write(rstd), to.parameter(gain_)}, {epsilon_});
  } else {
    to.kernel(part_, KernelId::kCentredNormForward, {read(x), write(y), write(mean), write(rstd)},
              {epsilon_});
  }
}

void NormBlock::forward_of_sum(Emission& to, const View& x, const View& y, Param bias,
                               const View& sum, const Normed& result) const {
  if (!has_mean()) {
    to.kernel(
        part_, KernelId::kResidualRmsNormForward,
        {read(x), read(y), to.parameter(gain_), write(sum), write(result.y), write(result.rstd)},
        {epsilon_});
  } else {
    to.kernel(part_, KernelId::kResidualLayerNormForward,
              {read(x), read(y), to.parameter(bias), to.parameter(gain_), to.parameter(bias_),
               write(sum), write(result.y), write(result.mean), write(result.rstd)},
              {epsilon_});
  }
}

void NormBlock::take_gradients(LayerPass& to) const {
  if (gain_) to.take_gradient(part_, gain_, false);
  if (has_bias()) to.take_gradient(part_, bias_, true);
}

// One kernel gives all gradients: it belongs to the first part of a backward.
void NormBlock::backward(Emission& to, const View& dy, const View& x, const Normed& result,
                         const View& dx) const {
  if (to.emits_inputs()) {
    if (has_mean() && !has_bias()) {
      centred_backward(to, dy, x, result, dx);
    } else if (!has_mean()) {
      const View gain = to.parameter(gain_);
      to.kernel(
          part_, KernelId::kRmsNormBackward,
          {read(dy), read(x), read(result.rstd), gain, dx, to.gradient(gain_), to.workspace()});
    } else {
      const View gain = to.parameter(gain_);
      to.kernel(part_, KernelId::kLayerNormBackward,
                {read(dy), read(x), read(result.mean), read(result.rstd), gain, dx,
                 to.gradient(gain_), to.gradient(bias_), to.workspace()});
    }
  }
  if (gain_) to.done(gain_);
}

void NormBlock::centred_backward(Emission& to, const View& dy, const View& x, const Normed& result,
                                 const View& dx) const {
  if (gain_) {
    const View gain = to.parameter(gain_);
    to.kernel(part_, KernelId::kCentredNormBackward,
              {read(dy), read(x), read(result.mean), read(result.rstd), dx, gain,
               to.gradient(gain_), to.workspace()});
  } else {
    to.kernel(part_, KernelId::kCentredNormBackward,
              {read(dy), read(x), read(result.mean), read(result.rstd), dx, to.workspace()});
  }
}

}  // namespace zplan
