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

// Rows of one head of out, or its gradient, [b, s, a, v].
template <typename T>
Rows<T> out_rows(const AttentionShape& s, T* out, std::int64_t batch, std::int64_t head) {
  const std::int64_t stride = s.heads * s.value_dim;
  return {out + batch * s.sequence * stride + head * s.value_dim, stride};
}

// The heads that query head (batch, head) works with.
template <typename T>
struct HeadOfQkv {
  Rows<T> q, k, v;
  HeadOfQkv(const AttentionShape& s, T* qkv, std::int64_t batch, std::int64_t head)
      : q(from_column(s, qkv, batch, head * s.head_dim)),
        k(from_column(s, qkv, batch, (s.heads + head / s.group()) * s.head_dim)),
        v(from_column(s, qkv, batch,
                      (s.heads + s.kv_heads) * s.head_dim + head / s.group() * s.value_dim)) {}

 private:
  static Rows<T> from_column(const AttentionShape& s, T* qkv, std::int64_t batch,
                             std::int64_t column) {
    return {qkv + batch * s.sequence * s.columns() + column, s.columns()};
  }
};

// to[rows, d] = in, dense and widened.
template <typename T, typename C>
void load_block(Rows<const T> in, std::int64_t rows, std::int64_t d, C* to) {
  for (std::int64_t i = 0; i < rows; ++i) {
#pragma omp simd
    for (std::int64_t p = 0; p < d; ++p) to[i * d + p] = static_cast<C>(in.data[i * in.stride + p]);
  }
}

template <typename T, typename C>
void store_block(Rows<T> out, std::int64_t rows, std::int64_t d, const C* from) {
  for (std::int64_t i = 0; i < rows; ++i) {
#pragma omp simd
    for (std::int64_t p = 0; p < d; ++p)
      out.data[i * out.stride + p] = static_cast<T>(from[i * d + p]);
  }
}

// transposed[d, kAttentionBlock] = dense rows[rows, d]^T
template <typename C>
void transpose_block(const C* in, std::int64_t rows, std::int64_t d, C* transposed) {
  for (std::int64_t p = 0; p < d; ++p) {
    for (std::int64_t i = 0; i < rows; ++i) transposed[p * kAttentionBlock + i] = in[i * d + p];
  }
}

// tile[rows, keys] = in[rows, d] transposed[d, keys]; tile rows are kAttentionBlock apart.
template <typename C>
void score_tile(const C* in, std::int64_t rows, const C* transposed, std::int64_t keys,
                std::int64_t d, C* tile) {
  tile_gemm<C>(
      {rows, keys, d, in, d, 1, transposed, kAttentionBlock, tile, kAttentionBlock, false});
}

// Keys of the block [first_key, first_key + keys) that query `row` may see.
inline std::int64_t visible_keys(std::int64_t row, std::int64_t first_key, std::int64_t keys) {
  return std::min(keys, row - first_key + 1);
}

// Calls body(i, its piece of scratch) for every i of [0, heads), each worth `work` multiply-adds.
template <typename Body>
void for_heads(std::int64_t heads, std::int64_t work, Scratch scratch,
               std::int64_t bytes_per_thread, const Body& body) {
  const std::int64_t room = static_cast<std::int64_t>(scratch.size()) / bytes_per_thread;
  ZPLAN_ASSERT(room > 0);
  const auto threads = static_cast<int>(
      std::max<std::int64_t>(1, std::min({heads, room, std::int64_t{omp_get_max_threads()}})));
#pragma omp parallel for schedule(static) \
    num_threads(threads) if (heads * work > kLeastParallelWork)
  for (std::int64_t i = 0; i < heads; ++i) {
    const auto begin = static_cast<std::size_t>(omp_get_thread_num() * bytes_per_thread);
    body(i, scratch.subspan(begin, static_cast<std::size_t>(bytes_per_thread)));
  }
}

inline std::int64_t head_work(const AttentionShape& s) {
  return s.sequence * s.sequence * (s.head_dim + s.value_dim) / 2;
}

}  // namespace zplan::exec::cpu
