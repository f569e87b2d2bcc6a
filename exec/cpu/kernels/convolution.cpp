#include <algorithm>

#include "exec/cpu/kernels/kernel_support.h"
#include "exec/cpu/kernels/state_gates.h"
#include "exec/cpu/kernels/state_scan.h"

namespace zplan::exec::cpu {
namespace {

constexpr std::int64_t kMostTaps = 8;

// Returns the argument of SiLU at token t of a sequence, of one channel.
template <typename T>
Compute<T> convolved(const ConvolutionShape& s, const T* x, const T* weight, const T* bias,
                     std::int64_t channel, std::int64_t t) {
  using C = Compute<T>;
  C sum = bias != nullptr ? static_cast<C>(bias[channel]) : static_cast<C>(0);
  for (std::int64_t tap = std::max<std::int64_t>(0, s.taps - 1 - t); tap < s.taps; ++tap)
    sum += static_cast<C>(weight[tap * s.channels + channel]) *
           static_cast<C>(x[(t - s.taps + 1 + tap) * s.wide + s.first + channel]);
  return sum;
}

template <typename T, typename G>
void backward_channel(const ConvolutionShape& s, const ConvolutionBackward<T, G>& x,
                      std::int64_t channel) {
  using C = Compute<T>;
  C dweight[kMostTaps] = {}, dbias = 0;
  for (std::int64_t i = 0; i < s.batch; ++i) {
    const T* in = x.x + i * s.sequence * s.wide;
    T* dx = x.dx + i * s.sequence * s.wide + s.first + channel;
    const T* dy = x.dy + i * s.sequence * s.channels + channel;
    C later[kMostTaps] = {};  // the gradients before SiLU of this token and those after it
    for (std::int64_t t = s.sequence; t-- > 0;) {
      std::copy_backward(later, later + s.taps - 1, later + s.taps);
      const C sum = convolved(s, in, x.weight, x.bias, channel, t);
      later[0] = static_cast<C>(dy[t * s.channels]) * silu_slope(sum);
      C own = 0;
      for (std::int64_t j = 0; j < s.taps; ++j)
        own += later[j] * static_cast<C>(x.weight[(s.taps - 1 - j) * s.channels + channel]);
      dx[t * s.wide] = static_cast<T>(own);
      dbias += later[0];
      for (std::int64_t tap = std::max<std::int64_t>(0, s.taps - 1 - t); tap < s.taps; ++tap)
        dweight[tap] +=
            later[0] * static_cast<C>(in[(t - s.taps + 1 + tap) * s.wide + s.first + channel]);
    }
  }
  for (std::int64_t tap = 0; tap < s.taps; ++tap)
    give(x.dweight[tap * s.channels + channel], dweight[tap], x.accumulate_weight);
  if (x.dbias != nullptr) give(x.dbias[channel], dbias, x.accumulate_bias);
}

}  // namespace

template <typename T>
void convolution_forward(const ConvolutionShape& s, const ConvolutionForward<T>& x) {
  for_rows(s.tokens(), s.channels, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      const std::int64_t i = row / s.sequence, t = row % s.sequence;
      const T* in = x.x + i * s.sequence * s.wide;
      for (std::int64_t c = 0; c < s.channels; ++c)
        x.y[row * s.channels + c] = static_cast<T>(silu(convolved(s, in, x.weight, x.bias, c, t)));
    }
  });
}

template <typename T, typename G>
void convolution_backward(const ConvolutionShape& s, const ConvolutionBackward<T, G>& x) {
  ZPLAN_ASSERT(s.taps <= kMostTaps);
  for_columns(s.tokens(), s.channels, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t c = begin; c < end; ++c) backward_channel(s, x, c);
  });
}

#define ZPLAN_INSTANTIATE(T) \
  template void convolution_forward<T>(const ConvolutionShape&, const ConvolutionForward<T>&);
ZPLAN_FOR_STORED_TYPES(ZPLAN_INSTANTIATE)
#undef ZPLAN_INSTANTIATE
#define ZPLAN_INSTANTIATE(T, G)                                     \
  template void convolution_backward<T, G>(const ConvolutionShape&, \
                                           const ConvolutionBackward<T, G>&);
ZPLAN_FOR_GRADIENT_TYPES(ZPLAN_INSTANTIATE)
#undef ZPLAN_INSTANTIATE

}  // namespace zplan::exec::cpu
