// With P the probabilities, D_i = dout_i . out_i and S' = P (dout v^T - D) / sqrt(d):
// dv = P^T dout, dq = S' k, dk = S'^T q. [Dao22 Algorithm 4]
// Key blocks are the outer loop; dk and dv of a block are summed in scratch over all queries of all
// heads that share it, dq over the key blocks in dqkv or, of 16-bit elements, in scratch.
#include "exec/cpu/kernels/attention_blocks.h"
#include "exec/cpu/kernels/block_attention.h"

namespace zplan::exec::cpu {
namespace {

template <typename C>
struct BackwardScratch {
  C *keys, *values;                // [block, d], [block, v]
  C *keys_turned, *values_turned;  // [d, block], [v, block] transposed
  C *queries, *dout;               // [block, d], [block, v]
  C *dkeys, *dvalues;              // [block, d], [block, v]
  C* probabilities;                // [block, block]
  C* scores;                       // [block, block] gradient of the raw scores
  C* delta;                        // [group, s] D
  C* dq;                           // [group, s, d], of 16-bit elements
};

template <typename T>
std::int64_t bytes_per_thread(const AttentionShape& s) {
  using C = Compute<T>;
  return 4 * aligned_bytes<C>(s.head_dim * kAttentionBlock) +
         4 * aligned_bytes<C>(s.value_dim * kAttentionBlock) +
         2 * aligned_bytes<C>(kAttentionBlock * kAttentionBlock) +
         aligned_bytes<C>(s.group() * s.sequence) +
         (kIsHalf<T> ? aligned_bytes<C>(s.group() * s.sequence * s.head_dim) : 0);
}

template <typename T>
BackwardScratch<Compute<T>> cut(const AttentionShape& s, Scratch scratch) {
  using C = Compute<T>;
  ScratchCutter cutter(scratch);
  BackwardScratch<C> w{};
  for (C** block : {&w.keys, &w.keys_turned, &w.queries, &w.dkeys})
    *block = cutter.take<C>(s.head_dim * kAttentionBlock);
  for (C** block : {&w.values, &w.values_turned, &w.dout, &w.dvalues})
    *block = cutter.take<C>(s.value_dim * kAttentionBlock);
  w.probabilities = cutter.take<C>(kAttentionBlock * kAttentionBlock);
  w.scores = cutter.take<C>(kAttentionBlock * kAttentionBlock);
  w.delta = cutter.take<C>(s.group() * s.sequence);
  if constexpr (kIsHalf<T>) w.dq = cutter.take<C>(s.group() * s.sequence * s.head_dim);
  return w;
}

// One query head of the group.
template <typename T>
struct HeadViews {
  Rows<const T> q, out, dout;
  Rows<T> dq;
  Rows<Compute<T>> dq_sum;
  const Compute<T>* lse;  // [s]
  Compute<T>* delta;      // [s]
  Scores<Compute<T>> scores;
  Compute<T>* dbias;  // of key - query, or null
};

// `bias` and `dbias` as in AttentionBackward.
template <typename T, typename Call>
HeadViews<T> views_of(const AttentionShape& s, const Call& x, std::int64_t batch,
                      std::int64_t kv_head, std::int64_t member,
                      const BackwardScratch<Compute<T>>& w, const Compute<T>* bias = nullptr,
                      Compute<T>* dbias = nullptr) {
  const std::int64_t head = kv_head * s.group() + member;
  HeadViews<T> views{head_of_qkv(s, x.qkv, batch, head).q,
                     out_rows(s, x.out, batch, head),
                     out_rows(s, x.dout, batch, head),
                     head_of_qkv(s, x.dqkv, batch, head).q,
                     {w.dq + member * s.sequence * s.head_dim, s.head_dim},
                     x.lse + (batch * s.heads + head) * s.sequence,
                     w.delta + member * s.sequence,
                     Scores<Compute<T>>(s, head, bias),
                     Scores<Compute<T>>::of_head(s, head, dbias)};
  if constexpr (!kIsHalf<T>) views.dq_sum = views.dq;
  return views;
}

template <typename T>
void row_products(const HeadViews<T>& x, const Sight& sight, std::int64_t v) {
  using C = Compute<T>;
  for (std::int64_t i = sight.query; i < sight.queries_end; ++i) {
    const T* a = x.dout.from(i).data;
    const T* b = x.out.from(i).data;
    C sum = 0;
#pragma omp simd reduction(+ : sum)
    for (std::int64_t p = 0; p < v; ++p) sum += static_cast<C>(a[p]) * static_cast<C>(b[p]);
    x.delta[i] = sum;
  }
}

// Scores become probabilities, dout v^T becomes the gradient of the raw scores; hidden keys get 0.
template <typename C>
void gradient_row(C* probabilities, C* scores, const VisibleKeys& visible, C scale, C lse,
                  C delta) {
#pragma omp simd
  for (std::int64_t j = visible.begin; j < visible.end; ++j) {
    const C p = fast_exp(scale * probabilities[j] - lse);
    probabilities[j] = p;
    scores[j] = p * (scores[j] - delta) * scale;
  }
}

// The same of scores that are bent; the first key is so far behind the query.
template <typename C>
void bent_gradient_row(C* probabilities, C* scores, const VisibleKeys& visible, const Scores<C>& of,
                       std::int64_t behind, C lse, C delta, C* dbias) {
  for (std::int64_t j = visible.begin; j < visible.end; ++j) {
    const C product = probabilities[j];
    const C p = fast_exp(of.of(product, behind + j) - lse);
    const C slope = p * (scores[j] - delta);
    probabilities[j] = p;
    scores[j] = slope * of.derivative(product);
    if (dbias != nullptr) dbias[behind + j] += slope;
  }
}

template <typename C>
void hide(C* row, const VisibleKeys& visible, std::int64_t keys) {
  std::fill(row, row + visible.begin, static_cast<C>(0));
  std::fill(row + visible.end, row + keys, static_cast<C>(0));
}

// The part of all three gradients that queries [query, +rows) of a head and keys [key, +keys) make:
// of the queries it adds to what is there, of the keys unless it is the first.
template <typename T>
void backward_tile(const AttentionShape& s, const Sight& sight, const HeadViews<T>& x,
                   const BackwardScratch<Compute<T>>& w, std::int64_t query, std::int64_t rows,
                   std::int64_t key, std::int64_t keys, bool adds, bool is_first_of_keys) {
  using C = Compute<T>;
  const std::int64_t d = s.head_dim, v = s.value_dim;
  load_block(x.q.from(query), rows, d, w.queries);
  load_block(x.dout.from(query), rows, v, w.dout);
  score_tile(w.queries, rows, w.keys_turned, keys, d, w.probabilities);
  score_tile(w.dout, rows, w.values_turned, keys, v, w.scores);
  for (std::int64_t i = 0; i < rows; ++i) {
    const std::int64_t row = query + i, at = i * kAttentionBlock;
    const VisibleKeys visible = sight.visible(row, key, keys);
    C *probabilities = w.probabilities + at, *slopes = w.scores + at;
    if (x.scores.bend()) {
      bent_gradient_row(probabilities, slopes, visible, x.scores, key - row, x.lse[row],
                        x.delta[row], x.dbias);
    } else {
      gradient_row(probabilities, slopes, visible, x.scores.scale, x.lse[row], x.delta[row]);
    }
    hide(probabilities, visible, keys);
    hide(slopes, visible, keys);
  }
  const Rows<C> dq = x.dq_sum.from(query);
  tile_gemm<C>({keys, v, rows, w.probabilities, 1, kAttentionBlock, w.dout, v, w.dvalues, v,
                !is_first_of_keys});
  tile_gemm<C>(
      {keys, d, rows, w.scores, 1, kAttentionBlock, w.queries, d, w.dkeys, d, !is_first_of_keys});
  tile_gemm<C>({rows, d, keys, w.scores, kAttentionBlock, 1, w.keys, d, dq.data, dq.stride, adds});
}

// Over the key blocks that are seen; `adds` to the gradients of the queries that are there already.
template <typename T, typename MemberViews>
void backward_tiles(const AttentionShape& s, const Sight& sight, const HeadRows<const T>& shared,
                    const HeadRows<T>& gradient, const MemberViews& member_views, bool adds,
                    const BackwardScratch<Compute<T>>& w) {
  const std::int64_t d = s.head_dim, v = s.value_dim, group = s.group();
  for (std::int64_t i = 0; i < group; ++i) row_products(member_views(i), sight, v);
  for (std::int64_t key = 0; key < sight.keys; key += kAttentionBlock) {
    const std::int64_t keys = std::min(kAttentionBlock, sight.keys - key);
    const std::int64_t first = sight.first_query(key), end = sight.end_of_queries(key, keys);
    load_block(shared.k.from(key), keys, d, w.keys);
    load_block(shared.v.from(key), keys, v, w.values);
    transpose_block(w.keys, keys, d, w.keys_turned);
    transpose_block(w.values, keys, v, w.values_turned);
    for (std::int64_t i = 0; i < group; ++i) {
      for (std::int64_t query = first; query < end; query += kAttentionBlock)
        backward_tile(s, sight, member_views(i), w, query,
                      std::min(kAttentionBlock, sight.queries_end - query), key, keys,
                      adds || !sight.is_first_block(query, key), i == 0 && query == first);
    }
    store_block(gradient.k.from(key), keys, d, w.dkeys);
    store_block(gradient.v.from(key), keys, v, w.dvalues);
  }
}

// All gradients of one key-value head and of the query heads that use it.
template <typename T>
void backward_group(const AttentionShape& s, const AttentionBackward<T>& x, std::int64_t index,
                    const BackwardScratch<Compute<T>>& w) {
  const std::int64_t n = s.sequence, d = s.head_dim, group = s.group();
  const std::int64_t batch = index / s.kv_heads, kv_head = index % s.kv_heads;
  const auto shared = head_of_qkv(s, x.qkv, batch, kv_head * group);
  const auto gradient = head_of_qkv(s, x.dqkv, batch, kv_head * group);
  const auto member_views = [&](std::int64_t i) {
    return views_of<T>(s, x, batch, kv_head, i, w, x.bias, x.dbias);
  };
  backward_tiles<T>(s, whole_sequence(s), shared, gradient, member_views, false, w);
  for (std::int64_t i = 0; i < group && kIsHalf<T>; ++i)
    store_block(member_views(i).dq, n, d, w.dq + i * n * d);
}

template <typename T>
void clear_rows(Rows<T> rows, std::int64_t begin, std::int64_t end, std::int64_t width) {
  for (std::int64_t i = begin; i < end; ++i)
    std::fill_n(rows.from(i).data, width, static_cast<T>(0));
}

// The same of another rank's keys and values: those that no query sees get 0.
template <typename T>
void block_group(const AttentionShape& s, const BlockAttentionBackward<T>& x, std::int64_t index,
                 const BackwardScratch<Compute<T>>& w) {
  const std::int64_t n = s.sequence, d = s.head_dim, group = s.group();
  const std::int64_t batch = index / s.kv_heads, kv_head = index % s.kv_heads;
  const Sight sight = sight_of_block(s, x.earlier);
  const auto shared = head_of_block(s, Rows<const T>{}, x.kv, batch, kv_head * group);
  const auto gradient = head_of_block(s, Rows<T>{}, x.dkv, batch, kv_head * group);
  const auto member_views = [&](std::int64_t i) { return views_of<T>(s, x, batch, kv_head, i, w); };
  for (std::int64_t i = 0; i < group && kIsHalf<T>; ++i)
    load_block(Rows<const T>{member_views(i).dq.data, member_views(i).dq.stride}, n, d,
               w.dq + i * n * d);
  backward_tiles<T>(s, sight, shared, gradient, member_views, true, w);
  clear_rows(gradient.k, sight.keys, n, d);
  clear_rows(gradient.v, sight.keys, n, s.value_dim);
  for (std::int64_t i = 0; i < group && kIsHalf<T>; ++i)
    store_block(member_views(i).dq, n, d, w.dq + i * n * d);
}

}  // namespace

template <typename T>
Bytes attention_backward_scratch_bytes(const AttentionShape& shape, int threads) {
  return {bytes_per_thread<T>(shape) * threads};
}

template <typename T>
void attention_backward(const AttentionShape& shape, const AttentionBackward<T>& x,
                        Scratch scratch) {
  const std::int64_t together = x.dbias == nullptr ? shape.batch : 1;
  for (std::int64_t first = 0; first < shape.batch; first += together)
    for_heads(together * shape.kv_heads, shape.group() * head_work(shape), scratch,
              bytes_per_thread<T>(shape), [&](std::int64_t index, Scratch piece) {
                backward_group(shape, x, first * shape.kv_heads + index, cut<T>(shape, piece));
              });
}

template <typename T>
void block_attention_backward(const AttentionShape& shape, const BlockAttentionBackward<T>& x,
                              Scratch scratch) {
  for_heads(shape.batch * shape.kv_heads, shape.group() * head_work(shape), scratch,
            bytes_per_thread<T>(shape), [&](std::int64_t index, Scratch piece) {
              block_group(shape, x, index, cut<T>(shape, piece));
            });
}

#define ZPLAN_INSTANTIATE(T)                                                              \
  template Bytes attention_backward_scratch_bytes<T>(const AttentionShape&, int);         \
  template void attention_backward<T>(const AttentionShape&, const AttentionBackward<T>&, \
                                      Scratch);                                           \
  template void block_attention_backward<T>(const AttentionShape&,                        \
                                            const BlockAttentionBackward<T>&, Scratch);
ZPLAN_FOR_STORED_TYPES(ZPLAN_INSTANTIATE)
#undef ZPLAN_INSTANTIATE

}  // namespace zplan::exec::cpu
