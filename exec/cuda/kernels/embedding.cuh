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

// Places in the array of tokens, inputs and targets: those of targets alone are no inputs.
// Searching all places leaves the division to those that match.
__device__ inline bool is_input(const EmbeddingShape& s, std::int64_t place) {
  return place % s.token_stride < s.sequence;
}

// Whether no input before `place` is the same token; alike in all threads of the block.
__device__ inline bool is_first(const EmbeddingShape& s, const std::int32_t* tokens,
                                std::int32_t token, std::int64_t place) {
  bool found = false;
  for (std::int64_t i = threadIdx.x; i < place && !found; i += blockDim.x)
    found = tokens[i] == token && is_input(s, i);
  return __syncthreads_or(found ? 1 : 0) == 0;
}

// row [h] += dx at the places begin + those whose bits are set, in order, each addition rounded.
template <int kWidth, typename T, typename G>
__device__ inline void add_places(const EmbeddingShape& s, G* row, const T* dx, std::int64_t begin,
                                  const unsigned* bits) {
  for_columns<kWidth>(s.hidden, [&](std::int64_t j) {
    auto sum = load<kWidth>(row + j);
    for (int warp = 0; warp < static_cast<int>(blockDim.x) / kWarp; ++warp) {
      for (unsigned left = bits[warp]; left != 0; left &= left - 1) {
        const std::int64_t place = begin + warp * kWarp + __ffs(static_cast<int>(left)) - 1;
        const std::int64_t t = place / s.token_stride * s.sequence + place % s.token_stride;
        const auto slope = load<kWidth>(dx + t * s.hidden + j);
#pragma unroll
        for (int k = 0; k < kWidth; ++k)
          sum.at[k] = widen(narrow<G>(sum.at[k] + static_cast<float>(s.scale) * slope.at[k]));
      }
    }
    store<kWidth>(row + j, sum);
  });
}

// dwte [rows, h] += dx [b, s, h] by token. A block per place; that of a token's first input adds
// all of them, looking at a block of places at a time: a bit of same[warp] is one that matches.
template <typename T, typename G, int kWidth>
__global__ void embedding_tokens_kernel(EmbeddingBackward<T, G> x, EmbeddingShape s) {
  __shared__ unsigned same[kMostWarps];
  const std::int64_t places = s.batch * s.token_stride;
  for_rows(places, [&](std::int64_t place) {
    const std::int32_t token = x.tokens[place];
    if (!is_input(s, place) || !holds(s, token) || !is_first(s, x.tokens, token, place)) return;
    for (std::int64_t begin = place; begin < places; begin += blockDim.x) {
      const std::int64_t i = begin + threadIdx.x;
      const bool is_same = i < places && x.tokens[i] == token && is_input(s, i);
      const unsigned lanes = __ballot_sync(kAllLanes, is_same ? 1 : 0);
      if (threadIdx.x % kWarp == 0) same[threadIdx.x / kWarp] = lanes;
      if (__syncthreads_or(is_same ? 1 : 0) != 0)
        add_places<kWidth>(s, x.dwte + (token - s.first) * s.hidden, x.dx, begin, same);
      __syncthreads();  // `same` may be written again
    }
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
