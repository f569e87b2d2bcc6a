#include "planner/lower/blocks/channel_convolution.h"

#include <numeric>
#include <utility>

namespace zplan {

ChannelConvolution::ChannelConvolution(LayerMaker& maker, const std::string& tensor,
                                       const ConvolutionKind& kind) {
  const Split split{Split::Kind::kColumns, kind.widths};
  const Shape bias{std::accumulate(kind.widths.begin(), kind.widths.end(), std::int64_t{0})};
  const Shape weight{kind.taps, bias[0]};
  ParamSpec spec{maker.naming.of(tensor, ".weight"), weight, weight, Init::kNormal,
                 maker.naming.std().usual,           true,   split};
  spec.is_matrix = false;
  weight_ = maker.params.add(std::move(spec));
  if (kind.bias)
    bias_ = maker.params.add(
        {maker.naming.of(tensor, ".bias"), bias, bias, Init::kZero, 0, false, split});
}

void ChannelConvolution::forward(LayerPass& to, const View& x, std::int64_t first,
                                 const View& y) const {
  const View weight = to.parameter(weight_);
  if (bias_)
    to.kernel(Part::kConvolution, Action::kCompute, KernelId::kConvolutionForward,
              {read(x), weight, write(y), to.parameter(bias_)}, {first});
  else
    to.kernel(Part::kConvolution, Action::kCompute, KernelId::kConvolutionForward,
              {read(x), weight, write(y)}, {first});
}

void ChannelConvolution::backward(LayerPass& to, const View& dy, const View& x, std::int64_t first,
                                  const View& dx) const {
  const View weight = to.parameter(weight_), dweight = to.gradient(weight_);
  if (bias_)
    to.kernel(
        Part::kConvolution, KernelId::kConvolutionBackward,
        {read(dy), read(x), weight, update(dx), dweight, to.parameter(bias_), to.gradient(bias_)},
        {first});
  else
    to.kernel(Part::kConvolution, KernelId::kConvolutionBackward,
              {read(dy), read(x), weight, update(dx), dweight}, {first});
}

void ChannelConvolution::take_gradients(LayerPass& to) const {
  to.take_gradient(Part::kConvolution, weight_, false);
  if (bias_) to.take_gradient(Part::kConvolution, bias_, true);
}

}  // namespace zplan
