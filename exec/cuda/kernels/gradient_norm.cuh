// Device code of gradient_norm.h.
#pragma once

#include <cmath>

#include "exec/cuda/kernels/device_support.cuh"
#include "planner/program/step_scalars.h"

namespace zplan::exec::cuda {

// partials [blocks] of the sum of squares of x [n]
template <typename T, int kWidth>
__global__ void sum_squares_kernel(double* partials, const T* x, std::int64_t n) {
  double sum = 0;
  for_packs<kWidth>(n, [&](auto width, std::int64_t i) {
    constexpr int w = decltype(width)::value;
    const auto v = load<w>(x + i);
#pragma unroll
    for (int k = 0; k < w; ++k) {
      const double value = v.at[k];
      sum += value * value;
    }
  });
  sum = block_sum(sum);
  if (threadIdx.x == 0) partials[blockIdx.x] = sum;
}

inline constexpr double kClipEps = 1e-6;  // [PyTorch] clip_grad_norm_

// One thread.
__global__ void clip_coefficient_kernel(double* clip, const double* squares_of_scaled,
                                        const double* scalars, bool round_norm) {
  const double most = scalars[kMaxGradientNorm], scale = scalars[kLossScale];
  double squares = *squares_of_scaled / (scale * scale);
  if (round_norm) {
    const double rounded = static_cast<float>(sqrt(squares));
    squares = rounded * rounded;  // exactly: 48 bits
  }
  const double norm = sqrt(squares);
  const bool clips = most > 0 && most < norm + kClipEps;
  const double factor = clips ? most / (norm + kClipEps) : 1.0;
  // Not finite: the update is skipped.
  clip[kClipFactor] = isfinite(norm) ? factor / scale : -1.0;
  clip[kGradientNorm] = norm;
}

}  // namespace zplan::exec::cuda
