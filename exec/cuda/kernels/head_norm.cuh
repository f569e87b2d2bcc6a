// Device code of head_norm.h. A row is a head of a token, of so many lanes of a warp; kWidth
// divides d. There are fewer than 2^31 rows.
#pragma once

#include "exec/cuda/kernels/head_norm.h"
#include "exec/cuda/kernels/lane_rows.cuh"
#include "exec/cuda/kernels/norm.cuh"

namespace zplan::exec::cuda {

// Before the head of a row in [b, s, n, d].
__device__ inline std::int64_t head_at(const HeadNormShape& s, std::int64_t row) {
  const auto index = static_cast<unsigned>(row), normed = static_cast<unsigned>(s.normed);
  return (index / normed * s.heads + s.first + index % normed) * s.head_dim;
}

template <typename T, int kWidth>
__global__ void head_norm_forward_kernel(HeadNormForward<T> x, HeadNormShape s, int lanes) {
  const int d = static_cast<int>(s.head_dim);
  const LaneRow own = lane_row(lanes);
  for_lane_rows(own, s.tokens * s.normed, [&](std::int64_t row, bool is_real) {
    const int columns = is_real ? d : 0;
    T* out = x.x + head_at(s, row);
    T* kept = x.kept + row * d;
    float squares = 0;
    for_lane_columns<kWidth>(own, columns, [&](int j) {
      const auto bits = load_bits<kWidth>(out + j);
      store_bits<kWidth>(kept + j, bits);
      const auto v = widen(bits);
#pragma unroll
      for (int k = 0; k < kWidth; ++k) squares += v.at[k] * v.at[k];
    });
    const float mean = sum_of_lanes(own, squares) / static_cast<float>(d);
    const float rstd = 1.0f / sqrtf(mean + static_cast<float>(x.epsilon));
    for_lane_columns<kWidth>(own, columns, [&](int j) {
      auto v = load<kWidth>(out + j);
      const auto gain = load<kWidth>(x.gain + j);
#pragma unroll
      for (int k = 0; k < kWidth; ++k) v.at[k] = v.at[k] * rstd * gain.at[k];
      store<kWidth>(out + j, v);
    });
    if (is_real && own.place == 0) x.rstd[row] = rstd;
  });
}

// Heads of at most so many elements have their gradients in one pass.
inline constexpr int kMostNormedDim = 256;
template <int kWidth>
inline constexpr int kMostHeadPacks = kMostNormedDim / (kWarp * kWidth);

// Sums of the lanes of a block that have the same columns, in an order set by its size alone:
// sum [d] of the blocks' rows.
template <int kWidth, int kPacks>
__device__ inline void store_block_sums(float* sum, const LaneRow& own, int d,
                                        Values<float, kWidth> (&values)[kPacks]) {
  __shared__ float of_warps[kThreads / kWarp][kMostNormedDim];
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  const bool is_first = static_cast<int>(threadIdx.x) % kWarp < own.lanes;
#pragma unroll
  for (int p = 0; p < kPacks; ++p) {
#pragma unroll
    for (int k = 0; k < kWidth; ++k) {
      float& value = values[p].at[k];
      for (int mask = own.lanes; mask < kWarp; mask *= 2) value += of_lane(value, mask);
    }
  }
  for_lane_packs<kWidth, kPacks>(own, is_first ? d : 0, [&](int p, int j) {
#pragma unroll
    for (int k = 0; k < kWidth; ++k) of_warps[warp][j + k] = values[p].at[k];
  });
  __syncthreads();
  for (int j = static_cast<int>(threadIdx.x); j < d; j += static_cast<int>(blockDim.x)) {
    float all = of_warps[0][j];
    for (int w = 1; w < static_cast<int>(blockDim.x) / kWarp; ++w) all += of_warps[w][j];
    sum[j] = all;
  }
}

// With n = x rstd and g = dy gain: dx = rstd (g - n mean(g n)), in place of dy, and sums [blocks,
// d] of dy n. A row has at most kPacks packs of a lane.
template <typename T, typename G, int kWidth, int kPacks>
__global__ void __launch_bounds__(kThreads, kPacks == 1 ? 4 : 2)
    head_norm_backward_kernel(float* sums, HeadNormBackward<T, G> x, HeadNormShape s, int lanes) {
  const int d = static_cast<int>(s.head_dim);
  const LaneRow own = lane_row(lanes);
  Values<float, kWidth> dgain[kPacks]{};
  for_lane_rows(own, s.tokens * s.normed, [&](std::int64_t row, bool is_real) {
    const int columns = is_real ? d : 0;
    const T* in = x.x + row * d;
    T* dx = x.dx + head_at(s, row);
    const float rstd = is_real ? x.rstd[row] : 0.0f;
    Values<float, kWidth> n[kPacks]{}, g[kPacks]{};
    float sum = 0;
    for_lane_packs<kWidth, kPacks>(own, columns, [&](int p, int j) {
      const auto v = load<kWidth>(in + j), slope = load<kWidth>(dx + j);
      const auto gain = load<kWidth>(x.gain + j);
#pragma unroll
      for (int k = 0; k < kWidth; ++k) {
        n[p].at[k] = v.at[k] * rstd;
        g[p].at[k] = slope.at[k] * gain.at[k];
        sum += g[p].at[k] * n[p].at[k];
        dgain[p].at[k] += slope.at[k] * n[p].at[k];
      }
    });
    const float mean = sum_of_lanes(own, sum) / static_cast<float>(d);
    for_lane_packs<kWidth, kPacks>(own, columns, [&](int p, int j) {
#pragma unroll
      for (int k = 0; k < kWidth; ++k) g[p].at[k] = rstd * (g[p].at[k] - n[p].at[k] * mean);
      store<kWidth>(dx + j, g[p]);
    });
  });
  store_block_sums(sums + blockIdx.x * s.head_dim, own, d, dgain);
}

// The same of longer rows, in two: dx, after the sums.
template <typename T, typename G, int kWidth>
__global__ void head_norm_input_gradient_kernel(HeadNormBackward<T, G> x, HeadNormShape s) {
  const int d = static_cast<int>(s.head_dim);
  const LaneRow own = lane_row(kWarp);
  for_lane_rows(own, s.tokens * s.normed, [&](std::int64_t row, bool) {
    const T* in = x.x + row * d;
    T* dx = x.dx + head_at(s, row);
    const float rstd = x.rstd[row];
    float sum = 0;
    for_lane_columns<kWidth>(own, d, [&](int j) {
      const auto v = load<kWidth>(in + j), slope = load<kWidth>(dx + j);
      const auto gain = load<kWidth>(x.gain + j);
#pragma unroll
      for (int k = 0; k < kWidth; ++k) sum += slope.at[k] * gain.at[k] * (v.at[k] * rstd);
    });
    const float mean = sum_of_lanes(own, sum) / static_cast<float>(d);
    for_lane_columns<kWidth>(own, d, [&](int j) {
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
