// Device code of norm.h. kCentred: LayerNorm, else RMSNorm. kWidth divides h.
#pragma once

#include "exec/cuda/kernels/column_sums.cuh"
#include "exec/cuda/kernels/held_row.cuh"
#include "exec/cuda/kernels/norm.h"

namespace zplan::exec::cuda {

// Two sums of one pass.
struct TwoSums {
  float first, second;
};
__device__ inline TwoSums operator+(TwoSums a, TwoSums b) {
  return {a.first + b.first, a.second + b.second};
}
__device__ inline TwoSums of_lane(TwoSums value, int mask) {
  return {of_lane(value.first, mask), of_lane(value.second, mask)};
}

// [assumed] of a thread in registers: a row of 4,096 elements of 16 bits has four warps.
inline constexpr int kNormPacks = 4;

// Sum over the block's row of (x - shift)^power, power 1 or 2.
template <int kPower, typename T, int kWidth, int kPacks>
__device__ inline float sum_of_row(const HeldRow<T, kWidth, kPacks>& row, float shift) {
  float sum = 0;
  row.each([&](int, const auto& v) {
#pragma unroll
    for (int k = 0; k < kWidth; ++k) {
      const float centred = v.at[k] - shift;
      sum += kPower == 1 ? centred : centred * centred;
    }
  });
  return block_sum(sum);
}

// y[t] from x[t].
template <bool kCentred, typename T, int kWidth, int kPacks>
__device__ inline void normalise_row(const NormForward<T>& x, int h, std::int64_t t,
                                     const HeldRow<T, kWidth, kPacks>& row) {
  T* out = x.y + t * h;
  const float count = static_cast<float>(h);
  const float mean = kCentred ? sum_of_row<1>(row, 0.0f) / count : 0.0f;
  const float squares = sum_of_row<2>(row, mean);
  const float rstd = 1.0f / sqrtf(squares / count + static_cast<float>(x.epsilon));
  row.each([&](int j, auto v) {
    const auto gain = load<kWidth>(x.gain + j);
#pragma unroll
    for (int k = 0; k < kWidth; ++k) v.at[k] = (v.at[k] - mean) * rstd * gain.at[k];
    if constexpr (kCentred) {
      const auto bias = load<kWidth>(x.bias + j);
#pragma unroll
      for (int k = 0; k < kWidth; ++k) v.at[k] += bias.at[k];
    }
    store<kWidth>(out + j, v);
  });
  if (threadIdx.x == 0) {
    if constexpr (kCentred) x.mean[t] = mean;
    x.rstd[t] = rstd;
  }
}

// x, y [T, h]
template <bool kCentred, typename T, int kWidth>
__global__ void __launch_bounds__(kMostRowThreads, 2)
    norm_forward_kernel(NormForward<T> x, NormShape shape) {
  const int h = static_cast<int>(shape.hidden);
  for_rows(shape.tokens, [&](std::int64_t t) {
    const HeldRow<T, kWidth, kNormPacks> row(x.x + t * h, h);
    normalise_row<kCentred>(x, h, t, row);
  });
}

// residual [T, h]. A thread reads of the sum what it wrote itself.
template <bool kCentred, typename T, int kWidth>
__global__ void __launch_bounds__(kMostRowThreads, 2)
    residual_norm_forward_kernel(ResidualSum<T> residual, NormForward<T> norm, NormShape shape) {
  const int h = static_cast<int>(shape.hidden);
  for_rows(shape.tokens, [&](std::int64_t t) {
    const HeldRow<T, kWidth, kNormPacks> x(residual.x + t * h, h), y(residual.y + t * h, h);
    const auto add = [&](int p, int j) {
      auto sum = y.values(p, j);
      if constexpr (kCentred) {
        const auto bias = load<kWidth>(residual.bias + j);
#pragma unroll
        for (int k = 0; k < kWidth; ++k) sum.at[k] += bias.at[k];
      }
      const auto stream = x.values(p, j);
#pragma unroll
      for (int k = 0; k < kWidth; ++k) sum.at[k] += stream.at[k];
      const auto rounded = narrow_pack<T>(sum);
      store_bits<kWidth>(residual.sum + t * h + j, rounded);
      return rounded;
    };
    const HeldRow<T, kWidth, kNormPacks> row(residual.sum + t * h, h, add);
    normalise_row<kCentred>(norm, h, t, row);
  });
}

// With n = (x - mean) rstd and g = dy gain: dx (+)= rstd (g - mean(g) - n mean(g n)), of RMSNorm
// without mean(g). dx, dy, x [T, h]
template <bool kCentred, typename T, typename G, int kWidth>
__global__ void norm_input_gradient_kernel(NormBackward<T, G> x, NormShape shape) {
  const std::int64_t h = shape.hidden;
  for_rows(shape.tokens, [&](std::int64_t t) {
    const T* in = x.x + t * h;
    const T* dy = x.dy + t * h;
    T* dx = x.dx + t * h;
    const float mean = kCentred ? x.mean[t] : 0.0f, rstd = x.rstd[t];
    TwoSums sums{0, 0};
    for_columns<kWidth>(h, [&](std::int64_t j) {
      const auto v = load<kWidth>(in + j), slope = load<kWidth>(dy + j);
      const auto gain = load<kWidth>(x.gain + j);
#pragma unroll
      for (int k = 0; k < kWidth; ++k) {
        const float g = slope.at[k] * gain.at[k];
        sums = sums + TwoSums{g, g * ((v.at[k] - mean) * rstd)};
      }
    });
    sums = block_sum(sums);
    const float mean_g = kCentred ? sums.first / static_cast<float>(h) : 0.0f;
    const float mean_gn = sums.second / static_cast<float>(h);
    for_columns<kWidth>(h, [&](std::int64_t j) {
      const auto v = load<kWidth>(in + j), slope = load<kWidth>(dy + j);
      const auto gain = load<kWidth>(x.gain + j);
      Values<float, kWidth> result;
#pragma unroll
      for (int k = 0; k < kWidth; ++k) {
        const float n = (v.at[k] - mean) * rstd;
        result.at[k] = rstd * (slope.at[k] * gain.at[k] - mean_g - n * mean_gn);
      }
      if (x.accumulate_dx) {
        const auto before = load<kWidth>(dx + j);
#pragma unroll
        for (int k = 0; k < kWidth; ++k) result.at[k] = before.at[k] + result.at[k];
      }
      store<kWidth>(dx + j, result);
    });
  });
}

// Gradients summed over rows: gain's and, of LayerNorm, bias's.
template <bool kCentred>
inline constexpr int kTermsOf = kCentred ? 2 : 1;

// dy n and, of LayerNorm, dy: the terms of the gradients of gain and bias.
template <bool kCentred, int kWidth, typename T, typename G>
__device__ inline Values<float, kTermsOf<kCentred> * kWidth> parameter_terms(
    const NormBackward<T, G>& x, std::int64_t h, std::int64_t t, std::int64_t column) {
  const auto v = load<kWidth>(x.x + t * h + column);
  const auto slope = load<kWidth>(x.dy + t * h + column);
  const float mean = kCentred ? x.mean[t] : 0.0f, rstd = x.rstd[t];
  Values<float, kTermsOf<kCentred> * kWidth> terms;
#pragma unroll
  for (int k = 0; k < kWidth; ++k) {
    terms.at[k] = slope.at[k] * ((v.at[k] - mean) * rstd);
    if constexpr (kCentred) terms.at[kWidth + k] = slope.at[k];
  }
  return terms;
}

// sums [pieces, 2 or 1, h] of those terms over the rows of a piece.
template <bool kCentred, typename T, typename G, int kWidth>
__global__ void norm_parameter_pieces_kernel(float* sums, NormBackward<T, G> x, NormShape shape,
                                             Pieces pieces) {
  sum_pieces<kTermsOf<kCentred>, kWidth>(
      sums, shape.tokens, shape.hidden, pieces, [&](std::int64_t t, std::int64_t column) {
        return parameter_terms<kCentred, kWidth>(x, shape.hidden, t, column);
      });
}

// What a row's gradient is made of, on the way: read while the row before is worked on.
template <typename T, int kWidth, int kPacks>
struct RowAhead {
  PackBits<T, kWidth> x[kPacks], dy[kPacks];
  float mean, rstd;
};

template <bool kCentred, int kWidth, int kPacks, typename T, typename G>
__device__ inline RowAhead<T, kWidth, kPacks> read_row(const NormBackward<T, G>& x, int h,
                                                       std::int64_t t) {
  RowAhead<T, kWidth, kPacks> row{};
  row.mean = kCentred ? x.mean[t] : 0.0f;
  row.rstd = x.rstd[t];
  for_own_packs<kWidth, kPacks>(h, [&](int p, int j) {
    row.x[p] = load_bits<kWidth>(x.x + t * h + j);
    row.dy[p] = load_bits<kWidth>(x.dy + t * h + j);
  });
  return row;
}

// All of it in one pass, for rows of at most kPacks packs of a block's threads, each of which keeps
// its columns of the sums: sums [blocks, 2 or 1, h] of the terms over the rows of a block.
template <bool kCentred, typename T, typename G, int kWidth, int kPacks>
__global__ void __launch_bounds__(kMostRowThreads, kPacks == 1 ? 2 : 1)
    norm_backward_kernel(float* sums, NormBackward<T, G> x, NormShape shape) {
  const int h = static_cast<int>(shape.hidden);
  Values<float, kWidth> dgain[kPacks]{}, dbias[kPacks]{};
  auto ahead = read_row<kCentred, kWidth, kPacks>(x, h, blockIdx.x);
  int turn = 0;
  for_rows(shape.tokens, [&](std::int64_t t) {
    const float mean = ahead.mean, rstd = ahead.rstd;
    Values<float, kWidth> n[kPacks]{}, g[kPacks]{};
    TwoSums row{0, 0};
    for_own_packs<kWidth, kPacks>(h, [&](int p, int j) {
      const auto v = widen(ahead.x[p]), slope = widen(ahead.dy[p]), gain = load<kWidth>(x.gain + j);
#pragma unroll
      for (int k = 0; k < kWidth; ++k) {
        n[p].at[k] = (v.at[k] - mean) * rstd;
        g[p].at[k] = slope.at[k] * gain.at[k];
        row = row + TwoSums{g[p].at[k], g[p].at[k] * n[p].at[k]};
        dgain[p].at[k] += slope.at[k] * n[p].at[k];
        dbias[p].at[k] += slope.at[k];
      }
    });
    if (t + gridDim.x < shape.tokens)
      ahead = read_row<kCentred, kWidth, kPacks>(x, h, t + gridDim.x);
    row = block_reduce_in_turn(row, Add{}, turn);
    turn = 1 - turn;
    const float mean_g = kCentred ? row.first / static_cast<float>(h) : 0.0f;
    const float mean_gn = row.second / static_cast<float>(h);
    for_own_packs<kWidth, kPacks>(h, [&](int p, int j) {
      T* dx = x.dx + t * h + j;
      Values<float, kWidth> result;
#pragma unroll
      for (int k = 0; k < kWidth; ++k)
        result.at[k] = rstd * (g[p].at[k] - mean_g - n[p].at[k] * mean_gn);
      if (x.accumulate_dx) {
        const auto before = load<kWidth>(dx);
#pragma unroll
        for (int k = 0; k < kWidth; ++k) result.at[k] = before.at[k] + result.at[k];
      }
      store<kWidth>(dx, result);
    });
  });
  float* own = sums + blockIdx.x * kTermsOf<kCentred> * h;
  for_own_packs<kWidth, kPacks>(h, [&](int p, int j) {
    store<kWidth>(own + j, dgain[p]);
    if constexpr (kCentred) store<kWidth>(own + h + j, dbias[p]);
  });
}

}  // namespace zplan::exec::cuda
