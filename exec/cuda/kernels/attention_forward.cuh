// Forward attention: a block owns one tile of queries of one head and goes through the tiles of
// keys up to its own; sums are kept against a running maximum [Milakov18].
#pragma once

#include <cmath>

#include "exec/cuda/kernels/attention_tiles.cuh"

namespace zplan::exec::cuda {

// Blocks: [tiles of queries, the last, which see the most keys, first; b; a].
template <typename T, typename Tile>
__global__ void attention_forward_kernel(AttentionShape s, AttentionForward<T> x, bool wide) {
  __shared__ typename Tile::Rows queries;
  __shared__ typename Tile::Rows keys;  // then values
  __shared__ typename Tile::Square weights;
  const auto [tile, head, batch] = block_place(s, s.heads);
  const std::int64_t query = (s.sequence - 1) / Tile::kRows * Tile::kRows - tile * Tile::kRows;
  const std::int64_t shared = head / s.group();
  const auto q = query_rows(s, x.qkv, batch, head);
  const auto k = key_rows(s, x.qkv, batch, shared);
  const auto v = value_rows(s, x.qkv, batch, shared);
  const int d = static_cast<int>(s.head_dim), value_dim = static_cast<int>(s.value_dim);
  const float scale = 1.0f / sqrtf(static_cast<float>(d));

  typename Tile::RowsPart sums{};
  float most[Tile::kPer], total[Tile::kPer];
  for (int i = 0; i < Tile::kPer; ++i) {
    most[i] = -INFINITY;
    total[i] = 0;
  }
  load_rows<Tile>(queries, q.from(query), s.sequence - query, d, wide);
  for (std::int64_t key = 0; key <= query; key += Tile::kRows) {
    __syncthreads();  // the values of the last tile are read, the queries written
    load_rows<Tile>(keys, k.from(key), s.sequence - key, d, wide);
    __syncthreads();
    typename Tile::SquarePart scores;
    multiply_transposed<Tile>(scores, queries, keys);
    for (int i = 0; i < Tile::kPer; ++i) {
      const int row = Tile::y() + i * Tile::kSide;
      float tile_most = -INFINITY;
      for (int j = 0; j < Tile::kPer; ++j) {
        const bool is_visible = key + Tile::x() + j * Tile::kSide <= query + row;
        scores[i][j] = is_visible ? scale * scores[i][j] : -INFINITY;
        tile_most = fmaxf(tile_most, scores[i][j]);
      }
      const float new_most = fmaxf(most[i], row_max<Tile>(tile_most));
      const float shrink = expf(most[i] - new_most);
      float sum = 0;
      for (int j = 0; j < Tile::kPer; ++j) {
        const float weight = expf(scores[i][j] - new_most);
        weights[row][Tile::x() + j * Tile::kSide] = weight;
        sum += weight;
      }
      total[i] = total[i] * shrink + row_sum<Tile>(sum);
      most[i] = new_most;
      for (int j = 0; j < Tile::kColumns; ++j) sums[i][j] *= shrink;
    }
    __syncthreads();  // the keys are read
    load_rows<Tile>(keys, v.from(key), s.sequence - key, value_dim, wide);
    __syncthreads();
    add_product<Tile, false>(sums, weights, keys);
  }
  for (int i = 0; i < Tile::kPer; ++i) {
    const std::int64_t row = query + Tile::y() + i * Tile::kSide;
    for (int j = 0; j < Tile::kColumns; ++j) sums[i][j] /= total[i];
    if (row < s.sequence && Tile::x() == 0)
      x.lse[(batch * s.heads + head) * s.sequence + row] = most[i] + logf(total[i]);
  }
  store_rows<Tile>(out_rows(s, x.out, batch, head).from(query), sums, s.sequence - query,
                   value_dim);
}

}  // namespace zplan::exec::cuda
