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

// The heads that a query head works with.
template <typename T>
struct HeadRows {
  Rows<T> q, k, v;
};

// Of qkv, those of query head (batch, head).
template <typename T>
HeadRows<T> head_of_qkv(const AttentionShape& s, T* qkv, std::int64_t batch, std::int64_t head) {
  const auto from_column = [&](std::int64_t column) {
    return Rows<T>{qkv + batch * s.sequence * s.columns() + column, s.columns()};
  };
  return {from_column(head * s.head_dim), from_column((s.heads + head / s.group()) * s.head_dim),
          from_column((s.heads + s.kv_heads) * s.head_dim + head / s.group() * s.value_dim)};
}

// The same with keys and values of another rank's block, [b, s, g (d + v)].
template <typename T>
HeadRows<T> head_of_block(const AttentionShape& s, Rows<T> q, T* kv, std::int64_t batch,
                          std::int64_t head) {
  const std::int64_t columns = s.kv_heads * (s.head_dim + s.value_dim);
  T* first = kv + batch * s.sequence * columns;
  const std::int64_t kv_head = head / s.group();
  return {q,
          {first + kv_head * s.head_dim, columns},
          {first + s.kv_heads * s.head_dim + kv_head * s.value_dim, columns}};
}

// The queries that see keys: all keys [0, keys), or those of them that are not behind the query.
struct Sight {
  std::int64_t query = 0, queries_end = 0;
  std::int64_t keys = 0;
  bool causal = false;

  // The first query that sees a block of keys.
  std::int64_t first_query(std::int64_t key) const { return causal ? std::max(query, key) : query; }
  std::int64_t visible(std::int64_t row, std::int64_t first_key, std::int64_t n) const {
    return causal ? std::min(n, row - first_key + 1) : n;
  }
};

inline Sight whole_sequence(const AttentionShape& s) { return {0, s.sequence, s.sequence, true}; }
// Of a block of another rank (block_attention.h).
inline Sight sight_of_block(const AttentionShape& s, bool earlier) {
  if (earlier) return {0, s.sequence, s.sequence / 2};
  return {s.sequence / 2, s.sequence, s.sequence};
}

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
