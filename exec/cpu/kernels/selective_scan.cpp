#include <algorithm>
#include <cmath>

#include "exec/cpu/kernels/kernel_support.h"
#include "exec/cpu/kernels/state_gates.h"
#include "exec/cpu/kernels/state_scan.h"

namespace zplan::exec::cpu {
namespace {

constexpr std::int64_t kMostState = 512;  // numbers of a channel

// Sets the negative rates of the decays of one channel.
template <typename C, typename T>
void set_rates(const SelectiveScanShape& s, const T* a_log, std::int64_t channel, C* rates) {
  for (std::int64_t n = 0; n < s.state; ++n)
    rates[n] = -std::exp(static_cast<C>(a_log[n * s.channels + channel]));
}

// The state of a channel at the next token, in place.
template <typename C, typename T>
void advance_channel(const SelectiveScanShape& s, const C* rates, C dt, C u, const T* input,
                     C* state) {
  for (std::int64_t n = 0; n < s.state; ++n)
    state[n] = std::exp(rates[n] * dt) * state[n] + dt * u * static_cast<C>(input[n]);
}

template <typename T>
void forward_channel(const SelectiveScanShape& s, const SelectiveScanForward<T>& x,
                     std::int64_t sequence, std::int64_t channel) {
  using C = Compute<T>;
  C rates[kMostState], state[kMostState] = {};
  set_rates(s, x.a_log, channel, rates);
  for (std::int64_t t = 0; t < s.sequence; ++t) {
    const std::int64_t row = sequence * s.sequence + t, at = row * s.channels + channel;
    const C u = static_cast<C>(x.x[at]), dt = softplus(static_cast<C>(x.step[at]));
    advance_channel(s, rates, dt, u, x.input + row * s.state, state);
    C y = static_cast<C>(x.d[channel]) * u;
    for (std::int64_t n = 0; n < s.state; ++n)
      y += state[n] * static_cast<C>(x.output[row * s.state + n]);
    x.y[at] = static_cast<T>(y);
  }
}

// A sequence works with this scratch.
template <typename C>
struct SelectiveScratch {
  C* states;   // [s, n]: behind each token, of one channel
  C* shared;   // [s, 2 n]: gradients of inputs and outputs
  C* vectors;  // [c, n + 1]: gradients of a_log and d
};

template <typename T, typename G>
void backward_channel(const SelectiveScanShape& s, const SelectiveScanBackward<T, G>& x,
                      std::int64_t sequence, std::int64_t channel,
                      const SelectiveScratch<Compute<T>>& work) {
  using C = Compute<T>;
  C rates[kMostState], state[kMostState] = {}, dstate[kMostState] = {};
  C* vectors = work.vectors + channel * (s.state + 1);
  std::fill_n(vectors, s.state + 1, static_cast<C>(0));
  set_rates(s, x.a_log, channel, rates);
  for (std::int64_t t = 0; t < s.sequence; ++t) {
    const std::int64_t row = sequence * s.sequence + t, at = row * s.channels + channel;
    advance_channel(s, rates, softplus(static_cast<C>(x.step[at])), static_cast<C>(x.x[at]),
                    x.input + row * s.state, state);
    std::copy_n(state, s.state, work.states + t * s.state);
  }
  for (std::int64_t t = s.sequence; t-- > 0;) {
    const std::int64_t row = sequence * s.sequence + t, at = row * s.channels + channel;
    const C raw = static_cast<C>(x.step[at]), dt = softplus(raw), u = static_cast<C>(x.x[at]);
    const C dy = static_cast<C>(x.dy[at]);
    C* shared = work.shared + 2 * t * s.state;
    C du = static_cast<C>(x.d[channel]) * dy, ddt = 0;
    for (std::int64_t n = 0; n < s.state; ++n) {
      const C input = static_cast<C>(x.input[row * s.state + n]);
      const C before = t > 0 ? work.states[(t - 1) * s.state + n] : static_cast<C>(0);
      const C decay = std::exp(rates[n] * dt);
      dstate[n] += dy * static_cast<C>(x.output[row * s.state + n]);
      shared[s.state + n] += dy * work.states[t * s.state + n];
      shared[n] += dstate[n] * dt * u;
      du += dstate[n] * dt * input;
      const C dlog = dstate[n] * before * decay;  // of rate dt
      ddt += dstate[n] * u * input + dlog * rates[n];
      vectors[n] += dlog * rates[n] * dt;
      dstate[n] *= decay;
    }
    vectors[s.state] += dy * u;
    x.dx[at] = static_cast<T>(du);
    x.dstep[at] = static_cast<T>(ddt * sigmoid(raw));
  }
}

template <typename T, typename G>
void backward_sequence(const SelectiveScanShape& s, const SelectiveScanBackward<T, G>& x,
                       std::int64_t sequence, const SelectiveScratch<Compute<T>>& work) {
  std::fill_n(work.shared, 2 * s.sequence * s.state, static_cast<Compute<T>>(0));
  for (std::int64_t channel = 0; channel < s.channels; ++channel)
    backward_channel(s, x, sequence, channel, work);
  for (std::int64_t t = 0; t < s.sequence; ++t)
    for (std::int64_t n = 0; n < s.state; ++n) {
      const std::int64_t at = (sequence * s.sequence + t) * s.state + n;
      x.dinput[at] = static_cast<T>(work.shared[2 * t * s.state + n]);
      x.doutput[at] = static_cast<T>(work.shared[(2 * t + 1) * s.state + n]);
    }
}

}  // namespace

template <typename T>
void selective_scan_forward(const SelectiveScanShape& s, const SelectiveScanForward<T>& x) {
  ZPLAN_ASSERT(s.state <= kMostState);
  for_blocks(s.batch * s.channels, 1, s.batch * s.sequence * s.channels * s.state,
             [&](std::int64_t at, std::int64_t) {
               forward_channel(s, x, at / s.channels, at % s.channels);
             });
}

template <typename T, typename G>
void selective_scan_backward(const SelectiveScanShape& s, const SelectiveScanBackward<T, G>& x,
                             Scratch scratch) {
  using C = Compute<T>;
  ZPLAN_ASSERT(s.state <= kMostState);
  const std::int64_t of_tokens = s.sequence * s.state, each = s.state + 1;
  ScratchCutter cutter(scratch);
  C* states = cutter.take<C>(s.batch * of_tokens);
  C* shared = cutter.take<C>(s.batch * 2 * of_tokens);
  C* vectors = cutter.take<C>(s.batch * s.channels * each);
  for_blocks(s.batch, 1, s.batch * of_tokens * s.channels, [&](std::int64_t i, std::int64_t) {
    backward_sequence(
        s, x, i,
        {states + i * of_tokens, shared + i * 2 * of_tokens, vectors + i * s.channels * each});
  });
  for (std::int64_t channel = 0; channel < s.channels; ++channel)
    for (std::int64_t n = 0; n < each; ++n) {
      C sum = 0;
      for (std::int64_t i = 0; i < s.batch; ++i)
        sum += vectors[(i * s.channels + channel) * each + n];
      if (n < s.state)
        give(x.da_log[n * s.channels + channel], sum, x.accumulate_a_log);
      else
        give(x.dd[channel], sum, x.accumulate_d);
    }
}

#define ZPLAN_INSTANTIATE(T)                                         \
  template void selective_scan_forward<T>(const SelectiveScanShape&, \
                                          const SelectiveScanForward<T>&);
ZPLAN_FOR_STORED_TYPES(ZPLAN_INSTANTIATE)
#undef ZPLAN_INSTANTIATE
#define ZPLAN_INSTANTIATE(T, G)                                          \
  template void selective_scan_backward<T, G>(const SelectiveScanShape&, \
                                              const SelectiveScanBackward<T, G>&, Scratch);
ZPLAN_FOR_GRADIENT_TYPES(ZPLAN_INSTANTIATE)
#undef ZPLAN_INSTANTIATE

}  // namespace zplan::exec::cpu
