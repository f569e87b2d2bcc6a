// Device code of embedding.h. kWidth divides h.
#pragma once

#include "exec/cuda/kernels/device_support.cuh"
#include "exec/cuda/kernels/embedding.h"

namespace zplan::exec::cuda {

__device__ inline bool holds(const EmbeddingShape& s, std::int64_t token) {
  return token >= s.first && token < s.first + s.rows;
}

// x [b, s, h]; a block per token
template <typename T, int kWidth>
__global__ void embedding_forward_kernel(EmbeddingForward<T> x, EmbeddingShape s) {
  for_rows(s.batch * s.sequence, [&](std::int64_t t) {
    const std::int32_t token = x.tokens[t / s.sequence * s.token_stride + t % s.sequence];
    const T* from = holds(s, token) ? x.wte + (token - s.first) * s.hidden : nullptr;
    const T* position = x.wpe != nullptr ? x.wpe + t % s.sequence * s.hidden : nullptr;
    for_columns<kWidth>(s.hidden, [&](std::int64_t j) {
      Values<float, kWidth> sum{};
      if (from != nullptr) sum = load<kWidth>(from + j);
#pragma unroll
      for (int k = 0; k < kWidth; ++k) sum.at[k] *= static_cast<float>(s.scale);
      if (position != nullptr) {
        const auto shift = load<kWidth>(position + j);
#pragma unroll
        for (int k = 0; k < kWidth; ++k) sum.at[k] += shift.at[k];
      }
      store<kWidth>(x.x + t * s.hidden + j, sum);
    });
  });
}

// keys [b s]: of each input its row of the table, `rows` where the piece has none; its place beside
// it.
template <typename T, typename G>
__global__ void embedding_keys_kernel(EmbeddingBackward<T, G> x, EmbeddingShape s,
                                      std::uint32_t* keys, std::uint32_t* places) {
  const std::int64_t n = s.batch * s.sequence;
  for (std::int64_t t = thread_of_grid(); t < n; t += threads_of_grid()) {
    const std::int64_t token = x.tokens[t / s.sequence * s.token_stride + t % s.sequence];
    keys[t] = static_cast<std::uint32_t>(holds(s, token) ? token - s.first : s.rows);
    places[t] = static_cast<std::uint32_t>(t);
  }
}

// dwte [rows, h] += dx [b, s, h] by row. Keys are sorted: a block for each of them and some
// columns; that of the first of equal keys adds all of these, in order, and rounds once.
template <typename T, typename G, int kWidth>
__global__ void embedding_rows_kernel(EmbeddingBackward<T, G> x, EmbeddingShape s,
                                      const std::uint32_t* keys, const std::uint32_t* places) {
  const std::int64_t n = s.batch * s.sequence;
  const std::int64_t columns = static_cast<std::int64_t>(blockDim.x) * kWidth;
  const std::int64_t tiles = (s.hidden + columns - 1) / columns;
  for_rows(n * tiles, [&](std::int64_t i) {
    const std::int64_t begin = i / tiles;
    const std::uint32_t key = keys[begin];
    const std::int64_t j = i % tiles * columns + static_cast<std::int64_t>(threadIdx.x) * kWidth;
    if (key == s.rows || (begin > 0 && keys[begin - 1] == key) || j >= s.hidden) return;
    G* to = x.dwte + key * s.hidden + j;
    auto sum = load<kWidth>(to);
    for (std::int64_t k = begin; k < n && keys[k] == key; ++k) {
      const auto slope = load<kWidth>(x.dx + places[k] * s.hidden + j);
#pragma unroll
      for (int w = 0; w < kWidth; ++w) sum.at[w] += static_cast<float>(s.scale) * slope.at[w];
    }
    store<kWidth>(to, sum);
  });
}

// dwpe [s, h] (+)= sum over b of dx [b, s, h]; n = s h is a multiple of kWidth
template <typename T, typename G, int kWidth>
__global__ void embedding_positions_kernel(EmbeddingBackward<T, G> x, std::int64_t batch,
                                           std::int64_t n) {
  for_packs<kWidth>(n, [=](auto width, std::int64_t i) {
    constexpr int w = decltype(width)::value;
    Values<float, w> sum{};
    for (std::int64_t b = 0; b < batch; ++b) {
      const auto slope = load<w>(x.dx + b * n + i);
#pragma unroll
      for (int k = 0; k < w; ++k) sum.at[k] += slope.at[k];
    }
    if (x.accumulate_wpe) {
      const auto before = load<w>(x.dwpe + i);
#pragma unroll
      for (int k = 0; k < w; ++k) sum.at[k] = before.at[k] + sum.at[k];
    }
    store<w>(x.dwpe + i, sum);
  });
}

}  // namespace zplan::exec::cuda
