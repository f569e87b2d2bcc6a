// Device code of cross_entropy.h. kWidth divides the columns.
#pragma once

#include <cfloat>
#include <cmath>

#include "exec/cuda/kernels/cross_entropy.h"
#include "exec/cuda/kernels/device_support.cuh"

namespace zplan::exec::cuda {

inline constexpr int kStatistics = 3;  // of a row: maximum, sum, target's logit

// Maximum and sum of exp(x - maximum) of the elements seen so far; the maximum starts at the least
// finite number, so that differences from it are numbers. [Milakov18]
struct SoftmaxSum {
  float most, sum;
};
inline constexpr SoftmaxSum kEmptySum{-FLT_MAX, 0.0f};

__device__ inline SoftmaxSum of_lane(SoftmaxSum value, int mask) {
  return {of_lane(value.most, mask), of_lane(value.sum, mask)};
}

struct MergeSums {
  __device__ SoftmaxSum operator()(SoftmaxSum a, SoftmaxSum b) const {
    const float most = fmaxf(a.most, b.most);
    return {most, a.sum * expf(a.most - most) + b.sum * expf(b.most - most)};
  }
};

// Where a column lies in a pack that begins `distance` before it; -1 or kWidth: outside.
template <int kWidth>
__device__ inline int place_in_pack(std::int64_t distance) {
  return static_cast<int>(distance < 0 ? -1 : distance < kWidth ? distance : kWidth);
}

struct RowStatistics {
  float most, sum, target;
};

// What follows token t.
__device__ inline std::int32_t target_of(const CrossEntropyShape& s, const std::int32_t* tokens,
                                         std::int64_t t) {
  return tokens[t / s.sequence * (s.sequence + 1) + t % s.sequence + 1];
}

// Of one row, by all threads of the block.
template <int kWidth, typename T>
__device__ inline RowStatistics statistics_of_row(const T* row, std::int64_t valid,
                                                  std::int64_t target) {
  SoftmaxSum own = kEmptySum;
  for_columns<kWidth>(valid, [&](std::int64_t j) {
    const auto v = load<kWidth>(row + j);
    const int count = place_in_pack<kWidth>(valid - j);
    float most = own.most;
#pragma unroll
    for (int k = 0; k < kWidth; ++k)
      if (k < count) most = fmaxf(most, v.at[k]);
    float sum = own.sum * expf(own.most - most);
#pragma unroll
    for (int k = 0; k < kWidth; ++k)
      if (k < count) sum += expf(v.at[k] - most);
    own = {most, sum};
  });
  const bool has_target = target >= 0 && target < valid;
  const float of_target = has_target ? widen(row[target]) : 0.0f;
  const SoftmaxSum all = block_reduce(own, MergeSums{});  // after it all have read the row
  return {valid > 0 ? all.most : -INFINITY, all.sum, of_target};
}

// statistics [b s, 3], logits [b s, columns]
template <typename T, int kWidth>
__global__ void cross_entropy_statistics_kernel(float* statistics, const T* logits,
                                                const std::int32_t* tokens, CrossEntropyShape s) {
  for_rows(s.batch * s.sequence, [&](std::int64_t t) {
    const std::int64_t target = target_of(s, tokens, t) - s.first;
    const RowStatistics r = statistics_of_row<kWidth>(logits + t * s.columns, s.valid, target);
    if (threadIdx.x != 0) return;
    float* out = statistics + t * kStatistics;
    out[0] = r.most;
    out[1] = r.sum;
    out[2] = r.target;
  });
}

// Of the pieces of row t, in order; the same in all threads.
__device__ inline RowStatistics merged(const float* statistics, std::int64_t pieces,
                                       std::int64_t rows, std::int64_t t) {
  const float* of_row = statistics + t * kStatistics;
  const std::int64_t stride = rows * kStatistics;
  RowStatistics all{of_row[0], 0.0f, 0.0f};
  for (std::int64_t k = 1; k < pieces; ++k) all.most = fmaxf(all.most, of_row[k * stride]);
  for (std::int64_t k = 0; k < pieces; ++k) {
    const float* piece = of_row + k * stride;
    all.sum += piece[1] * expf(piece[0] - all.most);
    all.target += piece[2];
  }
  return all;
}

// A row of logits becomes its gradient times `scale`, zero in the padding.
template <int kWidth, typename T>
__device__ inline void gradient_of_row(T* row, const CrossEntropyShape& s, std::int64_t target,
                                       const RowStatistics& r, float scale) {
  const float factor = scale / r.sum;
  for_columns<kWidth>(s.columns, [&](std::int64_t j) {
    auto v = load<kWidth>(row + j);
    const int count = place_in_pack<kWidth>(s.valid - j), hit = place_in_pack<kWidth>(target - j);
#pragma unroll
    for (int k = 0; k < kWidth; ++k) {
      const float gradient = expf(v.at[k] - r.most) * factor - (k == hit ? scale : 0.0f);
      v.at[k] = k < count ? gradient : 0.0f;
    }
    store<kWidth>(row + j, v);
  });
}

template <int kWidth, typename T>
__device__ inline void zero_row(T* row, std::int64_t columns) {
  for_columns<kWidth>(columns,
                      [&](std::int64_t j) { store<kWidth>(row + j, Values<float, kWidth>{}); });
}

// logits [b s, columns]. kMerges: from the statistics of all pieces, else from the row itself.
// Writes the sum of the losses of a block's rows to partials[block].
template <bool kMerges, typename T, int kWidth>
__global__ void cross_entropy_gradient_kernel(T* logits, const std::int32_t* tokens,
                                              const float* statistics, std::int64_t pieces,
                                              LossScaling scaling, CrossEntropyShape s) {
  const double loss_scale = scaling.loss_scale != nullptr ? *scaling.loss_scale : 1.0;
  const float scale = static_cast<float>(scaling.scale * loss_scale);
  const std::int64_t rows = s.batch * s.sequence;
  double loss = 0;
  for_rows(rows, [&](std::int64_t t) {
    T* row = logits + t * s.columns;
    const std::int32_t token = target_of(s, tokens, t);
    if (token == kIgnoredTarget) return zero_row<kWidth>(row, s.columns);
    const std::int64_t target = token - s.first;
    RowStatistics r;
    if constexpr (kMerges) {
      r = merged(statistics, pieces, rows, t);
    } else {
      r = statistics_of_row<kWidth>(row, s.valid, target);
    }
    gradient_of_row<kWidth>(row, s, target, r, scale);
    loss += log(static_cast<double>(r.sum)) +
            (static_cast<double>(r.most) - static_cast<double>(r.target));
  });
  if (threadIdx.x == 0) scaling.partials[blockIdx.x] = loss;
}

}  // namespace zplan::exec::cuda
