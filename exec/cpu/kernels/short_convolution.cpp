#include <algorithm>

#include "exec/cpu/kernels/kernel_support.h"
#include "exec/cpu/kernels/state_gates.h"
#include "exec/cpu/kernels/state_scan.h"

namespace zplan::exec::cpu {
namespace {

constexpr std::int64_t kMostShortTaps = 8;

// The columns of a token of one channel.
template <typename T>
struct ShortToken {
  const T *b, *c, *x;
};
template <typename T>
ShortToken<T> short_token(const ShortConvolutionShape& s, const T* in, std::int64_t row,
                          std::int64_t channel) {
  const T* first = in + row * 3 * s.channels + channel;
  return {first, first + s.channels, first + 2 * s.channels};
}

// Returns B x of a token.
template <typename T>
Compute<T> gated_input(const ShortConvolutionShape& s, const T* in, std::int64_t row,
                       std::int64_t channel) {
  const ShortToken<T> token = short_token(s, in, row, channel);
  return static_cast<Compute<T>>(*token.b) * static_cast<Compute<T>>(*token.x);
}

// Returns the sum over the last tokens, of token t of a sequence that begins with row `first`.
template <typename T>
Compute<T> short_sum(const ShortConvolutionShape& s, const T* in, const T* weight,
                     std::int64_t first, std::int64_t t, std::int64_t channel) {
  Compute<T> sum = 0;
  for (std::int64_t tap = std::max<std::int64_t>(0, s.taps - 1 - t); tap < s.taps; ++tap)
    sum += static_cast<Compute<T>>(weight[tap * s.channels + channel]) *
           gated_input(s, in, first + t - s.taps + 1 + tap, channel);
  return sum;
}

template <typename T, typename G>
void short_backward_channel(const ShortConvolutionShape& s, const ShortConvolutionBackward<T, G>& x,
                            std::int64_t channel) {
  using C = Compute<T>;
  C dweight[kMostShortTaps] = {};
  for (std::int64_t i = 0; i < s.batch; ++i) {
    const std::int64_t first = i * s.sequence;
    C later[kMostShortTaps] = {};  // gradients of the sums of this token and those after it
    for (std::int64_t t = s.sequence; t-- > 0;) {
      std::copy_backward(later, later + s.taps - 1, later + s.taps);
      const std::int64_t row = first + t;
      const ShortToken<T> token = short_token(s, x.in, row, channel);
      const C dy = static_cast<C>(x.dy[row * s.channels + channel]);
      later[0] = dy * static_cast<C>(*token.c);
      C own = 0;
      for (std::int64_t j = 0; j < s.taps; ++j)
        own += later[j] * static_cast<C>(x.weight[(s.taps - 1 - j) * s.channels + channel]);
      T* din = x.din + row * 3 * s.channels + channel;
      din[0] = static_cast<T>(own * static_cast<C>(*token.x));
      din[s.channels] = static_cast<T>(dy * short_sum(s, x.in, x.weight, first, t, channel));
      din[2 * s.channels] = static_cast<T>(own * static_cast<C>(*token.b));
      for (std::int64_t tap = std::max<std::int64_t>(0, s.taps - 1 - t); tap < s.taps; ++tap)
        dweight[tap] += later[0] * gated_input(s, x.in, row - s.taps + 1 + tap, channel);
    }
  }
  for (std::int64_t tap = 0; tap < s.taps; ++tap)
    give(x.dweight[tap * s.channels + channel], dweight[tap], x.accumulate_weight);
}

}  // namespace

template <typename T>
void short_convolution_forward(const ShortConvolutionShape& s, T* y, const T* in, const T* weight) {
  for_rows(s.batch * s.sequence, s.channels, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      const std::int64_t t = row % s.sequence;
      for (std::int64_t c = 0; c < s.channels; ++c)
        y[row * s.channels + c] =
            static_cast<T>(static_cast<Compute<T>>(*short_token(s, in, row, c).c) *
                           short_sum(s, in, weight, row - t, t, c));
    }
  });
}

template <typename T, typename G>
void short_convolution_backward(const ShortConvolutionShape& s,
                                const ShortConvolutionBackward<T, G>& x) {
  ZPLAN_ASSERT(s.taps <= kMostShortTaps);
  for_columns(s.batch * s.sequence, s.channels, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t c = begin; c < end; ++c) short_backward_channel(s, x, c);
  });
}

#define ZPLAN_INSTANTIATE(T) \
  template void short_convolution_forward<T>(const ShortConvolutionShape&, T*, const T*, const T*);
ZPLAN_FOR_STORED_TYPES(ZPLAN_INSTANTIATE)
#undef ZPLAN_INSTANTIATE
#define ZPLAN_INSTANTIATE(T, G)                                                \
  template void short_convolution_backward<T, G>(const ShortConvolutionShape&, \
                                                 const ShortConvolutionBackward<T, G>&);
ZPLAN_FOR_GRADIENT_TYPES(ZPLAN_INSTANTIATE)
#undef ZPLAN_INSTANTIATE

}  // namespace zplan::exec::cpu
