// Key blocks are the outer loop, so that each is transposed once; the running maximum and sum of
// all queries stay in scratch and the unnormalised output in out.
#include <limits>

#include "exec/cpu/kernels/attention_blocks.h"

namespace zplan::exec::cpu {
namespace {

template <typename T>
struct ForwardScratch {
  T* keys;   // [d, block] transposed
  T* tile;   // [block, block]
  T* most;   // [s] running maximum of the scaled scores
  T* total;  // [s] running sum of exp(score - most)
};

template <typename T>
std::int64_t bytes_per_thread(const AttentionShape& s) {
  return aligned_bytes<T>(s.head_dim * kAttentionBlock) +
         aligned_bytes<T>(kAttentionBlock * kAttentionBlock) + 2 * aligned_bytes<T>(s.sequence);
}

template <typename T>
ForwardScratch<T> cut(const AttentionShape& s, Scratch scratch) {
  ScratchCutter cutter(scratch);
  ForwardScratch<T> w{};
  w.keys = cutter.take<T>(s.head_dim * kAttentionBlock);
  w.tile = cutter.take<T>(kAttentionBlock * kAttentionBlock);
  w.most = cutter.take<T>(s.sequence);
  w.total = cutter.take<T>(s.sequence);
  return w;
}

// Scores of one query become exp(scale score - most), hidden ones 0. Returns the factor that brings
// earlier sums to the new maximum. [Milakov18]
template <typename T>
T softmax_row(T* row, std::int64_t visible, std::int64_t keys, T scale, T& most, T& total) {
  T block_most = row[0];
#pragma omp simd reduction(max : block_most)
  for (std::int64_t j = 0; j < visible; ++j) block_most = row[j] > block_most ? row[j] : block_most;
  const T new_most = std::max(most, scale * block_most);
  T sum = 0;
#pragma omp simd reduction(+ : sum)
  for (std::int64_t j = 0; j < visible; ++j) {
    row[j] = fast_exp(scale * row[j] - new_most);
    sum += row[j];
  }
  std::fill(row + visible, row + keys, static_cast<T>(0));
  const T shrink = fast_exp(most - new_most);
  total = total * shrink + sum;
  most = new_most;
  return shrink;
}

template <typename T>
void forward_head(const AttentionShape& s, const AttentionForward<T>& x, std::int64_t head,
                  const ForwardScratch<T>& w) {
  const std::int64_t n = s.sequence, d = s.head_dim;
  const T scale = static_cast<T>(1.0 / std::sqrt(static_cast<double>(d)));
  const Rows<const T> q = head_rows(s, x.qkv, head, 3, 0), k = head_rows(s, x.qkv, head, 3, 1),
                      v = head_rows(s, x.qkv, head, 3, 2);
  const Rows<T> out = head_rows(s, x.out, head, 1, 0);
  std::fill_n(w.most, n, -std::numeric_limits<T>::infinity());
  std::fill_n(w.total, n, static_cast<T>(0));
  for (std::int64_t key = 0; key < n; key += kAttentionBlock) {
    const std::int64_t keys = std::min(kAttentionBlock, n - key);
    transpose_block(k.from(key), keys, d, w.keys);
    for (std::int64_t query = key; query < n; query += kAttentionBlock) {
      const std::int64_t rows = std::min(kAttentionBlock, n - query);
      score_tile(q.from(query), rows, w.keys, keys, d, w.tile);
      for (std::int64_t i = 0; i < rows; ++i) {
        const std::int64_t row = query + i;
        const T shrink = softmax_row(w.tile + i * kAttentionBlock, visible_keys(row, key, keys),
                                     keys, scale, w.most[row], w.total[row]);
        T* o = out.from(row).data;
        for (std::int64_t p = 0; key > 0 && p < d; ++p) o[p] *= shrink;
      }
      tile_gemm<T>({rows, d, keys, w.tile, kAttentionBlock, 1, v.from(key).data, v.stride,
                    out.from(query).data, out.stride, key > 0});
    }
  }
  for (std::int64_t row = 0; row < n; ++row) {
    T* o = out.from(row).data;
    const T inverse = static_cast<T>(1) / w.total[row];
    for (std::int64_t p = 0; p < d; ++p) o[p] *= inverse;
    x.lse[head * n + row] = w.most[row] + std::log(w.total[row]);
  }
}

}  // namespace

template <typename T>
Bytes attention_forward_scratch_bytes(const AttentionShape& shape, int threads) {
  return {bytes_per_thread<T>(shape) * threads};
}

template <typename T>
void attention_forward(const AttentionShape& shape, const AttentionForward<T>& x, Scratch scratch) {
  for_heads(shape, scratch, bytes_per_thread<T>(shape), [&](std::int64_t head, Scratch piece) {
    forward_head(shape, x, head, cut<T>(shape, piece));
  });
}

#define ZPLAN_INSTANTIATE(T)                                                     \
  template Bytes attention_forward_scratch_bytes<T>(const AttentionShape&, int); \
  template void attention_forward<T>(const AttentionShape&, const AttentionForward<T>&, Scratch);
ZPLAN_INSTANTIATE(float)
ZPLAN_INSTANTIATE(double)
#undef ZPLAN_INSTANTIATE

}  // namespace zplan::exec::cpu
