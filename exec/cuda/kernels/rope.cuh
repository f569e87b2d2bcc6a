// Device code of rope.h.
#pragma once

#include "exec/cuda/kernels/device_support.cuh"
#include "exec/cuda/kernels/rope.h"

namespace zplan::exec::cuda {

inline constexpr int kPairs = 256;  // of a head, turned at a time

struct Turn {
  float cosine, sine;
};

// Pairs [begin, begin + n) of a head at one position; the block makes them once for all heads.
__device__ inline void make_turns(Turn* turns, std::int64_t position, std::int64_t begin, int n,
                                  std::int64_t head_dim, double theta, int direction,
                                  std::int64_t stretch = 1) {
  for (int i = static_cast<int>(threadIdx.x); i < n; i += static_cast<int>(blockDim.x)) {
    const double power = -2.0 * static_cast<double>(begin + i) / static_cast<double>(head_dim);
    const double angle =
        static_cast<double>(position) / static_cast<double>(stretch) * pow(theta, power);
    turns[i] = {static_cast<float>(cos(angle)), static_cast<float>(direction * sin(angle))};
  }
}

// Pairs, of which the second elements lie `distance` after the first, turned on the way; in place
// where `to` is `from`.
template <int kWidth, typename T>
__device__ inline void turn_pairs(const T* from, T* to, std::int64_t distance, const Turn* turns) {
  auto a = load<kWidth>(from), b = load<kWidth>(from + distance);
#pragma unroll
  for (int k = 0; k < kWidth; ++k) {
    const Turn by = turns[k];
    const float x = a.at[k], y = b.at[k];
    a.at[k] = x * by.cosine - y * by.sine;
    b.at[k] = y * by.cosine + x * by.sine;
  }
  store<kWidth>(to, a);
  store<kWidth>(to + distance, b);
}

// x [b, s, heads, d]; kWidth divides the pairs of a head, d and kPairs
template <typename T, int kWidth>
__global__ void rope_kernel(T* x, RopeShape s, double theta, int direction) {
  __shared__ Turn turns[kPairs];
  const std::int64_t pairs = s.size / 2;
  for_rows(s.sequence, [&](std::int64_t position) {
    for (std::int64_t begin = 0; begin < pairs; begin += kPairs) {
      const int n = static_cast<int>(pairs - begin < kPairs ? pairs - begin : kPairs);
      make_turns(turns, s.first + position, begin, n, s.size, theta, direction, s.stretch);
      __syncthreads();
      const std::int64_t packs = n / kWidth;
      for (std::int64_t i = threadIdx.x; i < s.batch * s.turned * packs; i += blockDim.x) {
        const std::int64_t row = i / packs, batch = row / s.turned, head = row % s.turned;
        const int pair = static_cast<int>(i % packs) * kWidth;
        T* first =
            x + ((batch * s.sequence + position) * s.heads + head) * s.head_dim + begin + pair;
        turn_pairs<kWidth>(first, first, pairs, turns + pair);
      }
      __syncthreads();  // the turns may be written again
    }
  });
}

}  // namespace zplan::exec::cuda
