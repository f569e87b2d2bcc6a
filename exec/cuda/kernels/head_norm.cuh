// Device code of head_norm.h. A row is a head of a token; kWidth divides d.
#pragma once

#include "exec/cuda/kernels/head_norm.h"
#include "exec/cuda/kernels/norm.cuh"

namespace zplan::exec::cuda {

// Before the head of a row in [b, s, n, d].
__device__ inline std::int64_t head_at(const HeadNormShape& s, std::int64_t row) {
  return (row / s.normed * s.heads + s.first + row % s.normed) * s.head_dim;
}

// Calls body(row) with the rows of this warp, all lanes together.
template <typename Body>
__device__ inline void for_warp_rows(std::int64_t rows, const Body& body) {
  for (std::int64_t row = thread_of_grid() / kWarp; row < rows; row += threads_of_grid() / kWarp)
    body(row);
}

// Calls body(j) with the packs of a row that are this lane's.
template <int kWidth, typename Body>
__device__ inline void for_lane_columns(std::int64_t columns, const Body& body) {
  for (std::int64_t j = threadIdx.x % kWarp * kWidth; j < columns; j += kWarp * kWidth) body(j);
}

__device__ inline float warp_sum(float value) {
  for (int mask = kWarp / 2; mask > 0; mask /= 2) value += of_lane(value, mask);
  return value;
}

template <typename T, int kWidth>
__global__ void head_norm_forward_kernel(HeadNormForward<T> x, HeadNormShape s) {
  const std::int64_t d = s.head_dim;
  for_warp_rows(s.tokens * s.normed, [&](std::int64_t row) {
    T* out = x.x + head_at(s, row);
    T* kept = x.kept + row * d;
    float squares = 0;
    for_lane_columns<kWidth>(d, [&](std::int64_t j) {
      const auto v = load<kWidth>(out + j);
      store<kWidth>(kept + j, v);
#pragma unroll
      for (int k = 0; k < kWidth; ++k) squares += v.at[k] * v.at[k];
    });
    const float rstd =
        1.0f / sqrtf(warp_sum(squares) / static_cast<float>(d) + static_cast<float>(x.epsilon));
    for_lane_columns<kWidth>(d, [&](std::int64_t j) {
      auto v = load<kWidth>(out + j);
      const auto gain = load<kWidth>(x.gain + j);
#pragma unroll
      for (int k = 0; k < kWidth; ++k) v.at[k] = v.at[k] * rstd * gain.at[k];
      store<kWidth>(out + j, v);
    });
    if (threadIdx.x % kWarp == 0) x.rstd[row] = rstd;
  });
}

template <typename T, typename G, int kWidth>
__global__ void head_norm_input_gradient_kernel(HeadNormBackward<T, G> x, HeadNormShape s) {
  const std::int64_t d = s.head_dim;
  for_warp_rows(s.tokens * s.normed, [&](std::int64_t row) {
    const T* in = x.x + row * d;
    T* dx = x.dx + head_at(s, row);
    const float rstd = x.rstd[row];
    float sum = 0;
    for_lane_columns<kWidth>(d, [&](std::int64_t j) {
      const auto v = load<kWidth>(in + j), slope = load<kWidth>(dx + j);
      const auto gain = load<kWidth>(x.gain + j);
#pragma unroll
      for (int k = 0; k < kWidth; ++k) sum += slope.at[k] * gain.at[k] * (v.at[k] * rstd);
    });
    const float mean = warp_sum(sum) / static_cast<float>(d);
    for_lane_columns<kWidth>(d, [&](std::int64_t j) {
      const auto v = load<kWidth>(in + j);
      auto slope = load<kWidth>(dx + j);
      const auto gain = load<kWidth>(x.gain + j);
#pragma unroll
      for (int k = 0; k < kWidth; ++k)
        slope.at[k] = rstd * (slope.at[k] * gain.at[k] - v.at[k] * rstd * mean);
      store<kWidth>(dx + j, slope);
    });
  });
}

// sums [pieces, d] of dy n over the rows of a piece.
template <typename T, typename G, int kWidth>
__global__ void head_norm_gain_pieces_kernel(float* sums, HeadNormBackward<T, G> x, HeadNormShape s,
                                             Pieces pieces) {
  sum_pieces<1, kWidth>(sums, s.tokens * s.normed, s.head_dim, pieces,
                        [&](std::int64_t row, std::int64_t column) {
                          const auto v = load<kWidth>(x.x + row * s.head_dim + column);
                          auto terms = load<kWidth>(x.dx + head_at(s, row) + column);
                          const float rstd = x.rstd[row];
#pragma unroll
                          for (int k = 0; k < kWidth; ++k) terms.at[k] *= v.at[k] * rstd;
                          return terms;
                        });
}

}  // namespace zplan::exec::cuda
