// With P the probabilities, D_i = dout_i . out_i and S' = P (dout v^T - D) / sqrt(d):
// dv = P^T dout, dq = S' k, dk = S'^T q. [Dao22 Algorithm 4]
// Key blocks are the outer loop; dk and dv of a block are summed over its queries, dq over the key
// blocks, all straight in dqkv.
#include "exec/cpu/kernels/attention_blocks.h"

namespace zplan::exec::cpu {
namespace {

template <typename T>
struct BackwardScratch {
  T* keys;           // [d, block] transposed
  T* values;         // [d, block] transposed
  T* probabilities;  // [block, block]
  T* scores;         // [block, block] gradient of the raw scores
  T* delta;          // [s] D
};

template <typename T>
std::int64_t bytes_per_thread(const AttentionShape& s) {
  return 2 * aligned_bytes<T>(s.head_dim * kAttentionBlock) +
         2 * aligned_bytes<T>(kAttentionBlock * kAttentionBlock) + aligned_bytes<T>(s.sequence);
}

template <typename T>
BackwardScratch<T> cut(const AttentionShape& s, Scratch scratch) {
  ScratchCutter cutter(scratch);
  BackwardScratch<T> w{};
  w.keys = cutter.take<T>(s.head_dim * kAttentionBlock);
  w.values = cutter.take<T>(s.head_dim * kAttentionBlock);
  w.probabilities = cutter.take<T>(kAttentionBlock * kAttentionBlock);
  w.scores = cutter.take<T>(kAttentionBlock * kAttentionBlock);
  w.delta = cutter.take<T>(s.sequence);
  return w;
}

template <typename T>
struct HeadViews {
  Rows<const T> q, k, v, out, dout;
  Rows<T> dq, dk, dv;
  const T* lse;  // [s]
};

template <typename T>
HeadViews<T> views_of(const AttentionShape& s, const AttentionBackward<T>& x, std::int64_t head) {
  return {head_rows(s, x.qkv, head, 3, 0),  head_rows(s, x.qkv, head, 3, 1),
          head_rows(s, x.qkv, head, 3, 2),  head_rows(s, x.out, head, 1, 0),
          head_rows(s, x.dout, head, 1, 0), head_rows(s, x.dqkv, head, 3, 0),
          head_rows(s, x.dqkv, head, 3, 1), head_rows(s, x.dqkv, head, 3, 2),
          x.lse + head * s.sequence};
}

template <typename T>
void row_products(const HeadViews<T>& x, std::int64_t n, std::int64_t d, T* delta) {
  for (std::int64_t i = 0; i < n; ++i) {
    const T* a = x.dout.from(i).data;
    const T* b = x.out.from(i).data;
    T sum = 0;
#pragma omp simd reduction(+ : sum)
    for (std::int64_t p = 0; p < d; ++p) sum += a[p] * b[p];
    delta[i] = sum;
  }
}

// Scores become probabilities, dout v^T becomes the gradient of the raw scores; hidden keys get 0.
template <typename T>
void gradient_row(T* probabilities, T* scores, std::int64_t visible, std::int64_t keys, T scale,
                  T lse, T delta) {
#pragma omp simd
  for (std::int64_t j = 0; j < visible; ++j) {
    const T p = fast_exp(scale * probabilities[j] - lse);
    probabilities[j] = p;
    scores[j] = p * (scores[j] - delta) * scale;
  }
  std::fill(probabilities + visible, probabilities + keys, static_cast<T>(0));
  std::fill(scores + visible, scores + keys, static_cast<T>(0));
}

// The part of all three gradients that queries [query, +rows) and keys [key, +keys) make.
template <typename T>
void backward_tile(const HeadViews<T>& x, const BackwardScratch<T>& w, std::int64_t d,
                   std::int64_t query, std::int64_t rows, std::int64_t key, std::int64_t keys) {
  const T scale = static_cast<T>(1.0 / std::sqrt(static_cast<double>(d)));
  score_tile(x.q.from(query), rows, w.keys, keys, d, w.probabilities);
  score_tile(x.dout.from(query), rows, w.values, keys, d, w.scores);
  for (std::int64_t i = 0; i < rows; ++i) {
    const std::int64_t row = query + i, at = i * kAttentionBlock;
    gradient_row(w.probabilities + at, w.scores + at, visible_keys(row, key, keys), keys, scale,
                 x.lse[row], w.delta[row]);
  }
  const bool is_first_of_keys = query == key, is_first_of_queries = key == 0;
  const Rows<T> dk = x.dk.from(key), dv = x.dv.from(key), dq = x.dq.from(query);
  tile_gemm<T>({keys, d, rows, w.probabilities, 1, kAttentionBlock, x.dout.from(query).data,
                x.dout.stride, dv.data, dv.stride, !is_first_of_keys});
  tile_gemm<T>({keys, d, rows, w.scores, 1, kAttentionBlock, x.q.from(query).data, x.q.stride,
                dk.data, dk.stride, !is_first_of_keys});
  tile_gemm<T>({rows, d, keys, w.scores, kAttentionBlock, 1, x.k.from(key).data, x.k.stride,
                dq.data, dq.stride, !is_first_of_queries});
}

template <typename T>
void backward_head(const AttentionShape& s, const HeadViews<T>& x, const BackwardScratch<T>& w) {
  const std::int64_t n = s.sequence, d = s.head_dim;
  row_products(x, n, d, w.delta);
  for (std::int64_t key = 0; key < n; key += kAttentionBlock) {
    const std::int64_t keys = std::min(kAttentionBlock, n - key);
    transpose_block(x.k.from(key), keys, d, w.keys);
    transpose_block(x.v.from(key), keys, d, w.values);
    for (std::int64_t query = key; query < n; query += kAttentionBlock) {
      const std::int64_t rows = std::min(kAttentionBlock, n - query);
      backward_tile(x, w, d, query, rows, key, keys);
    }
  }
}

}  // namespace

template <typename T>
Bytes attention_backward_scratch_bytes(const AttentionShape& shape, int threads) {
  return {bytes_per_thread<T>(shape) * threads};
}

template <typename T>
void attention_backward(const AttentionShape& shape, const AttentionBackward<T>& x,
                        Scratch scratch) {
  for_heads(shape, scratch, bytes_per_thread<T>(shape), [&](std::int64_t head, Scratch piece) {
    backward_head(shape, views_of(shape, x, head), cut<T>(shape, piece));
  });
}

#define ZPLAN_INSTANTIATE(T)                                                      \
  template Bytes attention_backward_scratch_bytes<T>(const AttentionShape&, int); \
  template void attention_backward<T>(const AttentionShape&, const AttentionBackward<T>&, Scratch);
ZPLAN_INSTANTIATE(float)
ZPLAN_INSTANTIATE(double)
#undef ZPLAN_INSTANTIATE

}  // namespace zplan::exec::cpu
