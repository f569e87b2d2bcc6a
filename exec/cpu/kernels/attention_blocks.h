// What the two directions of attention share: the block size, the view of one head, how threads
// take heads and scratch, and the score tile. Internal to exec/cpu/kernels.
#pragma once

#include <omp.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

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

// Keys of a block that a query sees: a range within it.
struct VisibleKeys {
  std::int64_t begin, end;

  bool empty() const { return begin == end; }
};

// The queries that see keys: all keys [0, keys), or those of them that the rule says.
struct Sight {
  std::int64_t query = 0, queries_end = 0;
  std::int64_t keys = 0;
  const AttentionRule* rule = nullptr;

  // Blocks of queries that see some of the keys [key, +n) begin in this range.
  std::int64_t first_query(std::int64_t key) const {
    if (rule == nullptr) return query;
    return std::max(query, rule->first_query(key) / kAttentionBlock * kAttentionBlock);
  }
  std::int64_t end_of_queries(std::int64_t key, std::int64_t n) const {
    return rule == nullptr ? queries_end
                           : std::min(queries_end, rule->last_query(key + n - 1, keys) + 1);
  }
  VisibleKeys visible(std::int64_t row, std::int64_t first_key, std::int64_t n) const {
    if (rule == nullptr) return {0, n};
    const auto begin = std::clamp<std::int64_t>(rule->begin(row) - first_key, 0, n);
    return {begin, std::clamp<std::int64_t>(rule->end(row, keys) - first_key, begin, n)};
  }
  // Whether no earlier block of keys is worked off with the block of queries from `from` on.
  bool is_first_block(std::int64_t from, std::int64_t key) const {
    return key <= (rule == nullptr ? 0 : rule->begin(from));
  }
};

inline Sight whole_sequence(const AttentionShape& s) {
  return {0, s.sequence, s.sequence, &s.rule};
}
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

// Scores of one query from products of q and k of the block from `first_key` on.
template <typename C>
struct Scores {
  const AttentionRule& rule;
  C scale, slope;
  const C* bias;  // of key - query; null: none

  // `all`: the bias of all heads, or null.
  Scores(const AttentionShape& s, std::int64_t head, const C* all)
      : rule(s.rule),
        scale(static_cast<C>(s.rule.scale(s.head_dim))),
        slope(static_cast<C>(s.rule.slope(head))),
        bias(of_head(s, head, all)) {}

  // The part of a head, from which places are key - query.
  template <typename Bias>
  static Bias* of_head(const AttentionShape& s, std::int64_t head, Bias* all) {
    return all == nullptr ? nullptr : all + head * (2 * s.sequence - 1) + s.sequence - 1;
  }

  bool bend() const { return rule.bends() || bias != nullptr; }
  C of(C product, std::int64_t behind) const {
    const C score = capped(product) - slope * static_cast<C>(std::abs(behind));
    return bias == nullptr ? score : score + bias[behind];
  }
  C capped(C product) const {
    const C score = scale * product, cap = static_cast<C>(rule.cap);
    return cap == 0 ? score : cap * std::tanh(score / cap);
  }
  // d score / d product
  C derivative(C product) const {
    if (rule.cap == 0) return scale;
    const C bent = capped(product) / static_cast<C>(rule.cap);
    return scale * (1 - bent * bent);
  }
};

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
