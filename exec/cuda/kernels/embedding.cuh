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

// Tokens by key, those of equal keys in order: [n] each, fewer than 2^31.
struct SortedTokens {
  const std::uint32_t *keys, *places;  // in order
  const std::uint32_t* ranks;          // of each token its place among these
  std::uint32_t n;

  __device__ bool is_first(std::uint32_t rank) const {
    return rank == 0 || keys[rank - 1] != keys[rank];
  }
  __device__ bool has(std::uint32_t key) const {
    std::uint32_t begin = 0, end = n;
    while (begin < end) {
      const std::uint32_t middle = (begin + end) / 2;
      if (keys[middle] < key) {
        begin = middle + 1;
      } else {
        end = middle;
      }
    }
    return begin < n && keys[begin] == key;
  }
};

// ranks [n] from places [n]
__global__ void embedding_ranks_kernel(std::uint32_t* ranks, const std::uint32_t* places,
                                       std::int64_t n) {
  for (std::int64_t k = thread_of_grid(); k < n; k += threads_of_grid())
    ranks[places[k]] = static_cast<std::uint32_t>(k);
}

// [assumed] so few tokens are sorted sooner by counting than by a sort that takes many launches;
// the tokens of a warp, and how many of all of them its lanes have under way.
inline constexpr std::int64_t kMostCounted = 8192;
inline constexpr int kCountingTokens = 4, kCountedAhead = 8;

// keys, places and ranks [n] of the sorted tokens. The place of a token is the number of smaller
// keys, and of equal ones before it; each warp counts for some tokens that follow each other.
__global__ void embedding_count_kernel(std::uint32_t* sorted_keys, std::uint32_t* sorted_places,
                                       std::uint32_t* ranks, const std::uint32_t* keys, int n) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int warps = static_cast<int>(threads_of_grid()) / kWarp;
  for (int w = static_cast<int>(thread_of_grid()) / kWarp; w * kCountingTokens < n; w += warps) {
    const int first = w * kCountingTokens;
    std::uint32_t own[kCountingTokens];
    int below[kCountingTokens]{};
#pragma unroll
    for (int p = 0; p < kCountingTokens; ++p) own[p] = first + p < n ? keys[first + p] : 0;
    for_ahead<kCountedAhead>(
        lane, n, kWarp, [&](int u) { return keys[u]; },
        [&](int u, std::uint32_t key) {
#pragma unroll
          for (int p = 0; p < kCountingTokens; ++p)
            below[p] += key < own[p] + (u < first + p ? 1 : 0) ? 1 : 0;
        });
#pragma unroll
    for (int p = 0; p < kCountingTokens; ++p) {
      for (int mask = kWarp / 2; mask > 0; mask /= 2) below[p] += of_lane(below[p], mask);
      if (lane != 0 || first + p >= n) continue;
      sorted_keys[below[p]] = own[p];
      sorted_places[below[p]] = static_cast<std::uint32_t>(first + p);
      ranks[first + p] = static_cast<std::uint32_t>(below[p]);
    }
  }
}

// [assumed] tokens of a thread under way.
inline constexpr int kTokensAhead = 4, kEqualTokensAhead = 2;

// A pack of dx and the rank of its token.
template <typename T, int kWidth>
struct RankedPack {
  PackBits<T, kWidth> dx;
  std::uint32_t rank;
};

// The row of the table for a key, at column j, from its first token on: all of equal keys are
// added, in order, and rounded once.
template <typename T, typename G, int kWidth>
__device__ inline void add_tokens(const EmbeddingBackward<T, G>& x, const EmbeddingShape& s,
                                  const SortedTokens& sorted, const RankedPack<T, kWidth>& first,
                                  std::int64_t j) {
  const std::uint32_t key = sorted.keys[first.rank];
  G* to = x.dwte + key * s.hidden + j;
  Values<float, kWidth> sum{};
  if (x.accumulate_wte) sum = load<kWidth>(to);
  const auto add = [&](const PackBits<T, kWidth>& dx) {
    const auto slope = widen(dx);
#pragma unroll
    for (int w = 0; w < kWidth; ++w) sum.at[w] += static_cast<float>(s.scale) * slope.at[w];
  };
  add(first.dx);
  const auto has_key = [&](std::uint32_t k) { return k < sorted.n && sorted.keys[k] == key; };
  for (std::uint32_t begin = first.rank + 1, end = begin; has_key(begin); begin = end) {
    while (end < begin + kEqualTokensAhead && has_key(end)) ++end;
    for_ahead<kEqualTokensAhead>(
        begin, end, 1u,
        [&](std::uint32_t k) { return load_bits<kWidth>(x.dx + sorted.places[k] * s.hidden + j); },
        [&](std::uint32_t, const auto& dx) { add(dx); });
  }
  store<kWidth>(to, sum);
}

// Position i at column j: dwpe [s, h] (+)= sum over b of dx [b, i], and the rows of the table whose
// first token stands there in one of the sequences.
template <int kWidth, typename T, typename G>
__device__ inline void add_position(const EmbeddingBackward<T, G>& x, const EmbeddingShape& s,
                                    const SortedTokens& sorted, std::int64_t i, std::int64_t j) {
  Values<float, kWidth> sum{};
  for_ahead<kTokensAhead>(
      std::int64_t{0}, s.batch, std::int64_t{1},
      [&](std::int64_t b) {
        const std::int64_t t = b * s.sequence + i;
        return RankedPack<T, kWidth>{load_bits<kWidth>(x.dx + t * s.hidden + j), sorted.ranks[t]};
      },
      [&](std::int64_t, const RankedPack<T, kWidth>& token) {
        const auto slope = widen(token.dx);
#pragma unroll
        for (int k = 0; k < kWidth; ++k) sum.at[k] += slope.at[k];
        if (sorted.keys[token.rank] != s.rows && sorted.is_first(token.rank))
          add_tokens(x, s, sorted, token, j);
      });
  if (x.dwpe == nullptr) return;
  G* to = x.dwpe + i * s.hidden + j;
  if (x.accumulate_wpe) {
    const auto before = load<kWidth>(to);
#pragma unroll
    for (int k = 0; k < kWidth; ++k) sum.at[k] = before.at[k] + sum.at[k];
  }
  store<kWidth>(to, sum);
}

// [assumed] rows of the table whose tokens a block looks for at once, a power of two.
inline constexpr int kZeroedRows = 16;
static_assert(kZeroedRows <= kWarp);

// Makes those of kZeroedRows rows of the table zero that no token has.
template <int kWidth, typename T, typename G>
__device__ inline void zero_absent_rows(const EmbeddingBackward<T, G>& x, const EmbeddingShape& s,
                                        const SortedTokens& sorted, std::int64_t first) {
  const std::int64_t own = first + threadIdx.x % kZeroedRows;
  const bool is_absent = own < s.rows && !sorted.has(static_cast<std::uint32_t>(own));
  const unsigned absent = __ballot_sync(kAllLanes, is_absent);
#pragma unroll 1
  for (int i = 0; i < kZeroedRows; ++i) {
    if ((absent >> i & 1u) == 0) continue;
    G* to = x.dwte + (first + i) * s.hidden;
    for_columns<kWidth>(s.hidden,
                        [&](std::int64_t j) { store<kWidth>(to + j, Values<float, kWidth>{}); });
  }
}

// A block has a position and some columns, or rows of the table, which it makes zero where no token
// has them and they are overwritten.
template <typename T, typename G, int kWidth>
__global__ void __launch_bounds__(kThreads, 4)
    embedding_backward_kernel(EmbeddingBackward<T, G> x, EmbeddingShape s, SortedTokens sorted) {
  const std::int64_t columns = static_cast<std::int64_t>(blockDim.x) * kWidth;
  const std::int64_t tiles = (s.hidden + columns - 1) / columns, positions = s.sequence * tiles;
  const std::int64_t rows = x.accumulate_wte ? 0 : (s.rows + kZeroedRows - 1) / kZeroedRows;
  for_rows(positions + rows, [&](std::int64_t i) {
    if (i < positions) {
      const std::int64_t j = i % tiles * columns + static_cast<std::int64_t>(threadIdx.x) * kWidth;
      if (j < s.hidden) add_position<kWidth>(x, s, sorted, i / tiles, j);
    } else {
      zero_absent_rows<kWidth>(x, s, sorted, (i - positions) * kZeroedRows);
    }
  });
}

}  // namespace zplan::exec::cuda
