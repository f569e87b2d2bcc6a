// Device code of cross_entropy.h. kWidth divides the columns.
#pragma once

#include <cfloat>
#include <cmath>

#include "exec/cuda/kernels/approximations.cuh"
#include "exec/cuda/kernels/cross_entropy.h"
#include "exec/cuda/kernels/held_row.cuh"

namespace zplan::exec::cuda {

inline constexpr int kStatistics = 3;  // of a row: maximum, sum, target's logit

// Maximum and sum of exp(x - maximum) of the elements seen so far; the maximum starts at the least
// finite number, so that differences from it are numbers. [Milakov18]
struct SoftmaxSum {
  float most, sum;
};
inline constexpr SoftmaxSum kEmptySum{-FLT_MAX, 0.0f};

struct Greater {
  __device__ float operator()(float a, float b) const { return fmaxf(a, b); }
};

// Of all threads of the block.
__device__ inline SoftmaxSum merge_threads(const SoftmaxSum& own) {
  const float most = block_reduce(own.most, Greater{});
  return {most, block_sum(own.sum * approximate_exp(own.most - most))};
}

// [assumed] of a row that is gone over twice: packs that a thread keeps in registers and in shared
// memory, most of a row of 50,304 elements of 16 bits, and how many of the others it reads at a
// time, as of a row that is gone over once.
inline constexpr int kHeldLogits = 6, kSharedLogits = 5, kLogitsAhead = 2;
template <typename T, int kWidth>
using PassingRow = HeldRow<T, kWidth, 0, 4>;

// Where a column lies in a pack that begins `distance` before it; -1 or kWidth: outside.
template <int kWidth>
__device__ inline int place_in_pack(int distance) {
  return distance < 0 ? -1 : distance < kWidth ? distance : kWidth;
}

struct RowStatistics {
  float most, sum, target;
};

// What follows token t.
__device__ inline std::int32_t target_of(const CrossEntropyShape& s, const std::int32_t* tokens,
                                         std::int64_t t) {
  return tokens[t / s.sequence * (s.sequence + 1) + t % s.sequence + 1];
}

// Where a token stands in a row; outside of it where it is of another piece.
__device__ inline int column_of(const CrossEntropyShape& s, std::int32_t token) {
  return token - static_cast<int>(s.first);
}

// Gains the first `count` elements of a pack, at least one.
template <int kWidth>
__device__ inline void add_pack(SoftmaxSum& own, Values<float, kWidth> v, int count) {
  if (count < kWidth) {
#pragma unroll
    for (int k = 0; k < kWidth; ++k)
      if (k >= count) v.at[k] = -INFINITY;
  }
  float most = own.most;
#pragma unroll
  for (int k = 0; k < kWidth; ++k) most = fmaxf(most, v.at[k]);
  float sum = own.sum * approximate_exp(own.most - most);
#pragma unroll
  for (int k = 0; k < kWidth; ++k) sum += approximate_exp(v.at[k] - most);
  own = {most, sum};
}

// Of one row, which begins at `first`, by all threads of the block.
template <typename Row, typename T>
__device__ inline RowStatistics statistics_of_row(const Row& row, const T* first, int valid,
                                                  int target) {
  constexpr int kWidth = Row::kPackWidth;
  SoftmaxSum own = kEmptySum;
  row.each([&](int j, const auto& v) {
    if (j < valid) add_pack(own, v, place_in_pack<kWidth>(valid - j));
  });
  const bool has_target = target >= 0 && target < valid;
  const float of_target = has_target ? widen(first[target]) : 0.0f;
  const SoftmaxSum all = merge_threads(own);  // after it all have read the row
  return {valid > 0 ? all.most : -INFINITY, all.sum, of_target};
}

// statistics [b s, 3], logits [b s, columns]
template <typename T, int kWidth>
__global__ void __launch_bounds__(kMostRowThreads, kResidentThreads / kMostRowThreads)
    cross_entropy_statistics_kernel(float* statistics, const T* logits, const std::int32_t* tokens,
                                    CrossEntropyShape s) {
  for_rows(s.batch * s.sequence, [&](std::int64_t t) {
    const int target = column_of(s, target_of(s, tokens, t));
    const T* first = logits + t * s.columns;
    const int valid = static_cast<int>(s.valid);
    const RowStatistics r =
        statistics_of_row(PassingRow<T, kWidth>(first, valid), first, valid, target);
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

// The row of logits that begins at `first` becomes its gradient times `scale`, zero in the padding.
template <typename Row, typename T>
__device__ inline void gradient_of_row(T* first, const Row& row, const CrossEntropyShape& s,
                                       int target, const RowStatistics& r, float scale) {
  constexpr int kWidth = Row::kPackWidth;
  const float factor = scale / r.sum;
  const int valid = static_cast<int>(s.valid);
  row.each([&](int j, auto v) {
    const int count = place_in_pack<kWidth>(valid - j), hit = place_in_pack<kWidth>(target - j);
#pragma unroll
    for (int k = 0; k < kWidth; ++k) v.at[k] = approximate_exp(v.at[k] - r.most) * factor;
    if (hit >= 0 && hit < kWidth) {
#pragma unroll
      for (int k = 0; k < kWidth; ++k)
        if (k == hit) v.at[k] -= scale;
    }
    if (count < kWidth) {
#pragma unroll
      for (int k = 0; k < kWidth; ++k)
        if (k >= count) v.at[k] = 0.0f;
    }
    store<kWidth>(first + j, v);
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
__global__ void __launch_bounds__(kMostRowThreads, 2)
    cross_entropy_gradient_kernel(T* logits, const std::int32_t* tokens, const float* statistics,
                                  std::int64_t pieces, LossScaling scaling, CrossEntropyShape s) {
  const double loss_scale = scaling.loss_scale != nullptr ? *scaling.loss_scale : 1.0;
  const float scale = static_cast<float>(scaling.scale * loss_scale);
  const std::int64_t rows = s.batch * s.sequence;
  double loss = 0;
  for_rows(rows, [&](std::int64_t t) {
    T* first = logits + t * s.columns;
    const std::int32_t token = target_of(s, tokens, t);
    if (token == kIgnoredTarget) return zero_row<kWidth>(first, s.columns);
    const int target = column_of(s, token);
    RowStatistics r;
    if constexpr (kMerges) {
      const PassingRow<T, kWidth> row(first, static_cast<int>(s.columns));
      r = merged(statistics, pieces, rows, t);
      gradient_of_row(first, row, s, target, r, scale);
    } else {
      const HeldRow<T, kWidth, kHeldLogits, kLogitsAhead, kSharedLogits> row(
          first, static_cast<int>(s.columns));
      r = statistics_of_row(row, first, static_cast<int>(s.valid), target);
      gradient_of_row(first, row, s, target, r, scale);
    }
    if (threadIdx.x == 0)
      loss += log(static_cast<double>(r.sum)) +
              (static_cast<double>(r.most) - static_cast<double>(r.target));
  });
  if (threadIdx.x == 0) scaling.partials[blockIdx.x] = loss;
}

}  // namespace zplan::exec::cuda
