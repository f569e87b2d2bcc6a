// Device code of sinks.h.
#pragma once

#include "exec/cuda/kernels/device_support.cuh"
#include "exec/cuda/kernels/sinks.h"

namespace zplan::exec::cuda {

// out [b, s, a, v], lse [b, a, s]
template <typename T>
__global__ void sinks_forward_kernel(SinksForward<T> x, SinksShape s) {
  for_rows(s.batch * s.sequence * s.heads, [&](std::int64_t row) {
    const std::int64_t head = row % s.heads, token = row / s.heads;
    const std::int64_t batch = token / s.sequence, at = token % s.sequence;
    float* lse = x.lse + (batch * s.heads + head) * s.sequence + at;
    const float before = *lse, sink = widen(x.sinks[head]);
    const float most = fmaxf(before, sink);
    const float after = most + logf(expf(before - most) + expf(sink - most));
    const float kept = expf(before - after);
    __syncthreads();  // all have read lse
    for_columns<1>(s.value_dim, [&](std::int64_t j) {
      T& value = x.out[row * s.value_dim + j];
      value = narrow<T>(widen(value) * kept);
    });
    if (threadIdx.x == 0) *lse = after;
  });
}

// dsinks [a]
template <typename T, typename G>
__global__ void sinks_backward_kernel(SinksBackward<T, G> x, SinksShape s) {
  for_rows(s.heads, [&](std::int64_t head) {
    const float sink = widen(x.sinks[head]);
    float own = 0;
    for_columns<1>(s.batch * s.sequence * s.value_dim, [&](std::int64_t i) {
      const std::int64_t token = i / s.value_dim;
      const std::int64_t at = (token * s.heads + head) * s.value_dim + i % s.value_dim;
      const std::int64_t row = (token / s.sequence * s.heads + head) * s.sequence;
      own += expf(sink - x.lse[row + token % s.sequence]) * widen(x.dout[at]) * widen(x.out[at]);
    });
    const float sum = -block_sum(own);
    if (threadIdx.x == 0)
      x.dsinks[head] = narrow<G>(x.accumulate ? widen(x.dsinks[head]) + sum : sum);
  });
}

}  // namespace zplan::exec::cuda
