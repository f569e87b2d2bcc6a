// Device code of embedding.h. kWidth divides h.
#pragma once

#include "exec/cuda/kernels/device_support.cuh"
#include "exec/cuda/kernels/embedding.h"

namespace zplan::exec::cuda {

__device__ inline std::int64_t token_of(const EmbeddingShape& s, const std::int32_t* tokens,
                                        std::int64_t t) {
  return tokens[t / s.sequence * s.token_stride + t % s.sequence];
}

__device__ inline bool holds(const EmbeddingShape& s, std::int64_t token) {
  return token >= s.first && token < s.first + s.rows;
}

// x [b, s, h]; a block per token
template <typename T, int kWidth>
__global__ void embedding_forward_kernel(EmbeddingForward<T> x, EmbeddingShape s) {
  for_rows(s.batch * s.sequence, [&](std::int64_t t) {
    const std::int64_t token = token_of(s, x.tokens, t);
    const T* from = holds(s, token) ? x.wte + (token - s.first) * s.hidden : nullptr;
    const T* position = x.wpe != nullptr ? x.wpe + t % s.sequence * s.hidden : nullptr;
    for_columns<kWidth>(s.hidden, [&](std::int64_t j) {
      Values<float, kWidth> sum{};
      if (from != nullptr) sum = load<kWidth>(from + j);
      if (position != nullptr) {
        const auto shift = load<kWidth>(position + j);
#pragma unroll
        for (int k = 0; k < kWidth; ++k) sum.at[k] += shift.at[k];
      }
      store<kWidth>(x.x + t * s.hidden + j, sum);
    });
  });
}

// Whether no token before t is the same; alike in all threads of the block.
__device__ inline bool is_first(const EmbeddingShape& s, const std::int32_t* tokens,
                                std::int64_t token, std::int64_t t) {
  bool found = false;
  for (std::int64_t u = threadIdx.x; u < t && !found; u += blockDim.x)
    found = token_of(s, tokens, u) == token;
  return __syncthreads_or(found ? 1 : 0) == 0;
}

// row [h] += dx[u] for all u >= t where the token is the same, in order. Blocks of tokens are
// compared together; a bit of same[warp] is a token of the block.
template <int kWidth, typename T, typename G>
__device__ inline void add_occurrences(const EmbeddingShape& s, const EmbeddingBackward<T, G>& x,
                                       std::int64_t token, std::int64_t t) {
  __shared__ unsigned same[kMostWarps];
  const std::int64_t tokens = s.batch * s.sequence;
  G* row = x.dwte + (token - s.first) * s.hidden;
  for (std::int64_t begin = t; begin < tokens; begin += blockDim.x) {
    const std::int64_t u = begin + threadIdx.x;
    const bool is_same = u < tokens && token_of(s, x.tokens, u) == token;
    const unsigned lanes = __ballot_sync(kAllLanes, is_same ? 1 : 0);
    if (threadIdx.x % kWarp == 0) same[threadIdx.x / kWarp] = lanes;
    __syncthreads();
    for (int warp = 0; warp < static_cast<int>(blockDim.x) / kWarp; ++warp) {
      for (unsigned left = same[warp]; left != 0; left &= left - 1) {
        const T* dx = x.dx + (begin + warp * kWarp + __ffs(static_cast<int>(left)) - 1) * s.hidden;
        for_columns<kWidth>(s.hidden, [&](std::int64_t j) {
          auto sum = load<kWidth>(row + j);
          const auto slope = load<kWidth>(dx + j);
#pragma unroll
          for (int k = 0; k < kWidth; ++k) sum.at[k] += slope.at[k];
          store<kWidth>(row + j, sum);
        });
      }
    }
    __syncthreads();  // `same` may be written again
  }
}

// dwte [rows, h] += dx [b, s, h] by token; a block per token
template <typename T, typename G, int kWidth>
__global__ void embedding_tokens_kernel(EmbeddingBackward<T, G> x, EmbeddingShape s) {
  for_rows(s.batch * s.sequence, [&](std::int64_t t) {
    const std::int64_t token = token_of(s, x.tokens, t);
    if (holds(s, token) && is_first(s, x.tokens, token, t)) add_occurrences<kWidth>(s, x, token, t);
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
