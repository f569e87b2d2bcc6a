// Key blocks are the outer loop, so that each is transposed once; the running maximum and sum of
// all queries stay in scratch, the unnormalised output in out or, of 16-bit elements, in scratch.
#include <limits>

#include "exec/cpu/kernels/attention_blocks.h"
#include "exec/cpu/kernels/block_attention.h"

namespace zplan::exec::cpu {
namespace {

template <typename C>
struct ForwardScratch {
  C* keys;     // [block, d]
  C* values;   // [block, v]
  C* queries;  // [block, d]
  C* turned;   // [d, block] keys transposed
  C* tile;     // [block, block]
  C* most;     // [s] running maximum of the scaled scores
  C* total;    // [s] running sum of exp(score - most)
  C* out;      // [s, v], of 16-bit elements
};

template <typename T>
std::int64_t bytes_per_thread(const AttentionShape& s) {
  using C = Compute<T>;
  return 3 * aligned_bytes<C>(s.head_dim * kAttentionBlock) +
         aligned_bytes<C>(s.value_dim * kAttentionBlock) +
         aligned_bytes<C>(kAttentionBlock * kAttentionBlock) + 2 * aligned_bytes<C>(s.sequence) +
         (kIsHalf<T> ? aligned_bytes<C>(s.sequence * s.value_dim) : 0);
}

template <typename T>
ForwardScratch<Compute<T>> cut(const AttentionShape& s, Scratch scratch) {
  using C = Compute<T>;
  ScratchCutter cutter(scratch);
  ForwardScratch<C> w{};
  for (C** block : {&w.keys, &w.queries, &w.turned})
    *block = cutter.take<C>(s.head_dim * kAttentionBlock);
  w.values = cutter.take<C>(s.value_dim * kAttentionBlock);
  w.tile = cutter.take<C>(kAttentionBlock * kAttentionBlock);
  w.most = cutter.take<C>(s.sequence);
  w.total = cutter.take<C>(s.sequence);
  if constexpr (kIsHalf<T>) w.out = cutter.take<C>(s.sequence * s.value_dim);
  return w;
}

// Scores of one query become exp(scale score - most), hidden ones 0. Returns the factor that brings
// earlier sums to the new maximum. [Milakov18]
template <typename C>
C softmax_row(C* row, const VisibleKeys& visible, std::int64_t keys, C scale, C& most, C& total) {
  std::fill(row, row + visible.begin, static_cast<C>(0));
  std::fill(row + visible.end, row + keys, static_cast<C>(0));
  if (visible.empty()) return static_cast<C>(1);
  C block_most = row[visible.begin];
#pragma omp simd reduction(max : block_most)
  for (std::int64_t j = visible.begin; j < visible.end; ++j)
    block_most = row[j] > block_most ? row[j] : block_most;
  const C new_most = std::max(most, scale * block_most);
  C sum = 0;
#pragma omp simd reduction(+ : sum)
  for (std::int64_t j = visible.begin; j < visible.end; ++j) {
    row[j] = fast_exp(scale * row[j] - new_most);
    sum += row[j];
  }
  const C shrink = fast_exp(most - new_most);
  total = total * shrink + sum;
  most = new_most;
  return shrink;
}

// What queries [query, +rows) gain from keys [key, +keys), which are in scratch; `adds` to what
// out has.
template <typename C>
void forward_tile(const AttentionShape& s, const Sight& sight, const ForwardScratch<C>& w,
                  const Scores<C>& scores, Rows<C> out, std::int64_t query, std::int64_t rows,
                  std::int64_t key, std::int64_t keys, bool adds) {
  const std::int64_t d = s.head_dim, v = s.value_dim;
  score_tile(w.queries, rows, w.turned, keys, d, w.tile);
  for (std::int64_t i = 0; i < rows; ++i) {
    const std::int64_t row = query + i;
    const VisibleKeys visible = sight.visible(row, key, keys);
    C* tile = w.tile + i * kAttentionBlock;
    const bool bends = scores.bend();
    for (std::int64_t j = visible.begin; bends && j < visible.end; ++j)
      tile[j] = scores.of(tile[j], key + j - row);
    const C shrink = softmax_row(tile, visible, keys, bends ? static_cast<C>(1) : scores.scale,
                                 w.most[row], w.total[row]);
    C* o = out.from(row).data;
    for (std::int64_t p = 0; adds && p < v; ++p) o[p] *= shrink;
  }
  tile_gemm<C>({rows, v, keys, w.tile, kAttentionBlock, 1, w.values, v, out.from(query).data,
                out.stride, adds});
}

// All of them, of one query head; `merges` with what out, most and total have already.
template <typename T>
void forward_tiles(const AttentionShape& s, const Sight& sight, const Scores<Compute<T>>& scores,
                   const HeadRows<const T>& head, Rows<Compute<T>> out, bool merges,
                   const ForwardScratch<Compute<T>>& w) {
  const std::int64_t d = s.head_dim, v = s.value_dim;
  for (std::int64_t key = 0; key < sight.keys; key += kAttentionBlock) {
    const std::int64_t keys = std::min(kAttentionBlock, sight.keys - key);
    load_block(head.k.from(key), keys, d, w.keys);
    load_block(head.v.from(key), keys, v, w.values);
    transpose_block(w.keys, keys, d, w.turned);
    const std::int64_t end = sight.end_of_queries(key, keys);
    for (std::int64_t query = sight.first_query(key); query < end; query += kAttentionBlock) {
      const std::int64_t rows = std::min(kAttentionBlock, sight.queries_end - query);
      load_block(head.q.from(query), rows, d, w.queries);
      forward_tile(s, sight, w, scores, out, query, rows, key, keys,
                   merges || !sight.is_first_block(query, key));
    }
  }
}

// A row of the result, normalised; returns its log-sum-exp.
template <typename T, typename C>
C finish_row(T* to, const C* sum, std::int64_t v, C most, C total) {
  const C inverse = static_cast<C>(1) / total;
  for (std::int64_t p = 0; p < v; ++p) to[p] = static_cast<T>(sum[p] * inverse);
  return most + std::log(total);
}

template <typename T>
void forward_head(const AttentionShape& s, const AttentionForward<T>& x, std::int64_t index,
                  const ForwardScratch<Compute<T>>& w) {
  using C = Compute<T>;
  const std::int64_t n = s.sequence, v = s.value_dim;
  const auto head = head_of_qkv(s, x.qkv, index / s.heads, index % s.heads);
  const Rows<T> result = out_rows(s, x.out, index / s.heads, index % s.heads);
  Rows<C> out{w.out, v};
  if constexpr (!kIsHalf<T>) out = result;
  std::fill_n(w.most, n, -std::numeric_limits<C>::infinity());
  std::fill_n(w.total, n, static_cast<C>(0));
  const Scores<C> scores(s, index % s.heads, x.bias);
  forward_tiles<T>(s, whole_sequence(s), scores, head, out, false, w);
  for (std::int64_t row = 0; row < n; ++row)
    x.lse[index * n + row] =
        finish_row(result.from(row).data, out.from(row).data, v, w.most[row], w.total[row]);
}

// What has been merged before counts as one sum whose largest score is its log-sum-exp.
template <typename T>
void merge_head(const AttentionShape& s, const BlockAttentionForward<T>& x, std::int64_t index,
                const ForwardScratch<Compute<T>>& w) {
  using C = Compute<T>;
  const std::int64_t n = s.sequence, batch = index / s.heads, head = index % s.heads;
  const Sight sight = sight_of_block(s, x.earlier);
  const Rows<C> out = out_rows(s, x.out, batch, head);
  C* lse = x.lse + index * n;
  for (std::int64_t row = sight.query; row < sight.queries_end; ++row) {
    w.most[row] = lse[row];
    w.total[row] = static_cast<C>(1);
  }
  const Rows<const T> q = head_of_qkv(s, x.qkv, batch, head).q;
  const Scores<C> scores(s, head, nullptr);
  forward_tiles<T>(s, sight, scores, head_of_block(s, q, x.kv, batch, head), out, true, w);
  for (std::int64_t row = sight.query; row < sight.queries_end; ++row) {
    C* o = out.from(row).data;
    lse[row] = finish_row(o, o, s.value_dim, w.most[row], w.total[row]);
  }
}

}  // namespace

template <typename T>
Bytes attention_forward_scratch_bytes(const AttentionShape& shape, int threads) {
  return {bytes_per_thread<T>(shape) * threads};
}

template <typename T>
void attention_forward(const AttentionShape& shape, const AttentionForward<T>& x, Scratch scratch) {
  for_heads(shape.batch * shape.heads, head_work(shape), scratch, bytes_per_thread<T>(shape),
            [&](std::int64_t head, Scratch piece) {
              forward_head(shape, x, head, cut<T>(shape, piece));
            });
}

template <typename T>
void block_attention_forward(const AttentionShape& shape, const BlockAttentionForward<T>& x,
                             Scratch scratch) {
  for_heads(
      shape.batch * shape.heads, head_work(shape), scratch, bytes_per_thread<T>(shape),
      [&](std::int64_t head, Scratch piece) { merge_head(shape, x, head, cut<T>(shape, piece)); });
}

#define ZPLAN_INSTANTIATE(T)                                                                       \
  template Bytes attention_forward_scratch_bytes<T>(const AttentionShape&, int);                   \
  template void attention_forward<T>(const AttentionShape&, const AttentionForward<T>&, Scratch);  \
  template void block_attention_forward<T>(const AttentionShape&, const BlockAttentionForward<T>&, \
                                           Scratch);
ZPLAN_FOR_STORED_TYPES(ZPLAN_INSTANTIATE)
#undef ZPLAN_INSTANTIATE

}  // namespace zplan::exec::cpu
