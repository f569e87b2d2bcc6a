// What the two directions of attention share: the block size, the view of one head, how threads
// take heads and scratch, and the score tile. Internal to exec/cpu/kernels.
#pragma once

#include <omp.h>

#include <algorithm>
#include <cmath>

#include "exec/cpu/kernels/attention.h"
#include "exec/cpu/kernels/kernel_support.h"
#include "exec/cpu/kernels/tile_gemm.h"

namespace zplan::exec::cpu {

// Rows of queries and of keys in a block: a score tile is 32 KiB in double, and four tiles fit the
// second-level cache. [derived]
inline constexpr std::int64_t kAttentionBlock = 64;

// A [rows, d] or [rows, rows'] piece of a larger row-major array.
template <typename T>
struct Rows {
  T* data;
  std::int64_t stride;
  Rows from(std::int64_t row) const { return {data + row * stride, stride}; }
};

// Head (batch, head) of a [b, s, parts * h] array, part 0, 1, 2 = q, k, v.
template <typename T>
Rows<T> head_rows(const AttentionShape& s, T* array, std::int64_t head_index, int parts, int part) {
  const std::int64_t h = s.heads * s.head_dim;
  const std::int64_t batch = head_index / s.heads, head = head_index % s.heads;
  return {array + batch * s.sequence * parts * h + part * h + head * s.head_dim, parts * h};
}

// transposed[d, kAttentionBlock] = rows^T
template <typename T>
void transpose_block(Rows<const T> in, std::int64_t rows, std::int64_t d, T* transposed) {
  for (std::int64_t p = 0; p < d; ++p) {
    for (std::int64_t i = 0; i < rows; ++i) {
      transposed[p * kAttentionBlock + i] = in.data[i * in.stride + p];
    }
  }
}

// tile[rows, keys] = in[rows, d] transposed[d, keys]; tile rows are kAttentionBlock apart.
template <typename T>
void score_tile(Rows<const T> in, std::int64_t rows, const T* transposed, std::int64_t keys,
                std::int64_t d, T* tile) {
  tile_gemm<T>({rows, keys, d, in.data, in.stride, 1, transposed, kAttentionBlock, tile,
                kAttentionBlock, false});
}

// Keys of the block [first_key, first_key + keys) that query `row` may see.
inline std::int64_t visible_keys(std::int64_t row, std::int64_t first_key, std::int64_t keys) {
  return std::min(keys, row - first_key + 1);
}

// Calls body(head_index, its piece of scratch) for every (batch, head).
template <typename Body>
void for_heads(const AttentionShape& s, Scratch scratch, std::int64_t bytes_per_thread,
               const Body& body) {
  const std::int64_t heads = s.batch * s.heads;
  const std::int64_t room = static_cast<std::int64_t>(scratch.size()) / bytes_per_thread;
  ZPLAN_ASSERT(room > 0);
  const auto threads = static_cast<int>(
      std::max<std::int64_t>(1, std::min({heads, room, std::int64_t{omp_get_max_threads()}})));
  const std::int64_t work = heads * s.sequence * s.sequence * s.head_dim;
#pragma omp parallel for schedule(static) num_threads(threads) if (work > kLeastParallelWork)
  for (std::int64_t i = 0; i < heads; ++i) {
    const auto begin = static_cast<std::size_t>(omp_get_thread_num() * bytes_per_thread);
    body(i, scratch.subspan(begin, static_cast<std::size_t>(bytes_per_thread)));
  }
}

}  // namespace zplan::exec::cpu
