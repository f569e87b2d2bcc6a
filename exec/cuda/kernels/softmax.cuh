// Device code of softmax.h. kWidth divides the sequence.
#pragma once

#include "exec/cuda/kernels/cross_entropy.cuh"
#include "exec/cuda/kernels/device_support.cuh"
#include "exec/cuda/kernels/softmax.h"

namespace zplan::exec::cuda {

template <typename T, int kWidth>
__global__ void softmax_forward_kernel(T* scores, SquareRows s) {
  for_rows(s.squares * s.sequence, [&](std::int64_t r) {
    T* row = scores + r * s.sequence;
    const int visible = static_cast<int>(r % s.sequence + 1);
    const RowStatistics all =
        statistics_of_row(PassingRow<T, kWidth>(row, visible), row, visible, -1);
    const float inverse = 1.0f / all.sum;
    for_columns<kWidth>(s.sequence, [&](std::int64_t j) {
      auto v = load<kWidth>(row + j);
      const int count = place_in_pack<kWidth>(visible - static_cast<int>(j));
#pragma unroll
      for (int k = 0; k < kWidth; ++k)
        v.at[k] = k < count ? approximate_exp(v.at[k] - all.most) * inverse : 0.0f;
      store<kWidth>(row + j, v);
    });
  });
}

template <typename T, int kWidth>
__global__ void softmax_backward_kernel(T* dprobs, const T* probs, SquareRows s) {
  for_rows(s.squares * s.sequence, [&](std::int64_t r) {
    T* slope = dprobs + r * s.sequence;
    const T* row = probs + r * s.sequence;
    const int visible = static_cast<int>(r % s.sequence + 1);
    float own = 0;
    for_columns<kWidth>(visible, [&](std::int64_t j) {
      const auto p = load<kWidth>(row + j), d = load<kWidth>(slope + j);
      const int count = place_in_pack<kWidth>(visible - static_cast<int>(j));
#pragma unroll
      for (int k = 0; k < kWidth; ++k)
        if (k < count) own += p.at[k] * d.at[k];
    });
    const float sum = block_sum(own);
    for_columns<kWidth>(s.sequence, [&](std::int64_t j) {
      const auto p = load<kWidth>(row + j);
      auto d = load<kWidth>(slope + j);
      const int count = place_in_pack<kWidth>(visible - static_cast<int>(j));
#pragma unroll
      for (int k = 0; k < kWidth; ++k) d.at[k] = k < count ? p.at[k] * (d.at[k] - sum) : 0.0f;
      store<kWidth>(slope + j, d);
    });
  });
}

}  // namespace zplan::exec::cuda
