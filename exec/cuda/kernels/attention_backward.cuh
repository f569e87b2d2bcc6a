// Backward attention [Dao22]: with p = exp(scale q k^T - lse), dp = dout v^T and
// delta = sum over d of dout out, the gradient of the scores is ds = scale p (dp - delta); then
// dq = ds k, dk = ds^T q, dv = p^T dout. Key-value heads sum over the query heads that share them.
#pragma once

#include <cmath>

#include "exec/cuda/kernels/attention_tiles.cuh"

namespace zplan::exec::cuda {

// delta[b, a, s]; a warp per row of dout and out[b, s, a, d], rows grid-stride. 2 b s a d flop.
template <typename T>
__global__ void attention_delta_kernel(AttentionShape s, AttentionBackward<T> x) {
  const std::int64_t rows = s.batch * s.sequence * s.heads;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const std::int64_t step = threads_of_grid() / kWarp;
  for (std::int64_t row = thread_of_grid() / kWarp; row < rows; row += step) {
    float sum = 0;
    for (std::int64_t at = row * s.head_dim + lane; at < (row + 1) * s.head_dim; at += kWarp)
      sum += widen(x.dout[at]) * widen(x.out[at]);
    for (int lanes = kWarp / 2; lanes > 0; lanes /= 2) sum += of_lane(sum, lanes);
    const std::int64_t head = row % s.heads, token = row / s.heads;
    const std::int64_t batch = token / s.sequence, position = token % s.sequence;
    if (lane == 0) x.delta[(batch * s.heads + head) * s.sequence + position] = sum;
  }
}

// Of the tile of queries from `query` and of keys from `key`, both in shared memory: p, and ds.
template <typename Tile>
__device__ void gradient_of_scores(const AttentionShape& s, const float* lse, const float* delta,
                                   std::int64_t query, std::int64_t key,
                                   const typename Tile::Rows& queries,
                                   const typename Tile::Rows& keys,
                                   const typename Tile::Rows& values,
                                   const typename Tile::Rows& dout, typename Tile::SquarePart& p,
                                   typename Tile::SquarePart& ds) {
  const float scale = 1.0f / sqrtf(static_cast<float>(s.head_dim));
  multiply_transposed<Tile>(p, queries, keys);
  multiply_transposed<Tile>(ds, dout, values);
  for (int i = 0; i < Tile::kPer; ++i) {
    const std::int64_t row = query + Tile::y() + i * Tile::kSide;
    for (int j = 0; j < Tile::kPer; ++j) {
      const bool is_visible = row < s.sequence && key + Tile::x() + j * Tile::kSide <= row;
      p[i][j] = is_visible ? expf(scale * p[i][j] - lse[row]) : 0.0f;
      ds[i][j] = is_visible ? scale * p[i][j] * (ds[i][j] - delta[row]) : 0.0f;
    }
  }
}

template <typename Tile>
__device__ void store_square(typename Tile::Square& square, const typename Tile::SquarePart& part) {
  for (int i = 0; i < Tile::kPer; ++i)
    for (int j = 0; j < Tile::kPer; ++j)
      square[Tile::y() + i * Tile::kSide][Tile::x() + j * Tile::kSide] = part[i][j];
}

// dq. Blocks: [tiles of queries, the last first; b; a].
template <typename T, typename Tile>
__global__ void attention_dq_kernel(AttentionShape s, AttentionBackward<T> x, bool wide) {
  __shared__ typename Tile::Rows queries, keys, values, dout;
  __shared__ typename Tile::Square scores;
  const auto [tile, head, batch] = block_place(s, s.heads);
  const std::int64_t query = (s.sequence - 1) / Tile::kRows * Tile::kRows - tile * Tile::kRows;
  const std::int64_t all = s.all_heads(), shared = head / s.group(), left = s.sequence - query;
  const auto k = head_rows(s, x.qkv, all, batch, s.heads + shared);
  const auto v = head_rows(s, x.qkv, all, batch, s.heads + s.kv_heads + shared);
  const std::int64_t statistics = (batch * s.heads + head) * s.sequence;
  const int d = static_cast<int>(s.head_dim);

  typename Tile::RowsPart sums{};
  load_rows<Tile>(queries, head_rows(s, x.qkv, all, batch, head).from(query), left, d, wide);
  load_rows<Tile>(dout, head_rows(s, x.dout, s.heads, batch, head).from(query), left, d, wide);
  for (std::int64_t key = 0; key <= query; key += Tile::kRows) {
    __syncthreads();  // the last tile of keys is read
    load_rows<Tile>(keys, k.from(key), s.sequence - key, d, wide);
    load_rows<Tile>(values, v.from(key), s.sequence - key, d, wide);
    __syncthreads();
    typename Tile::SquarePart p, ds;
    gradient_of_scores<Tile>(s, x.lse + statistics, x.delta + statistics, query, key, queries, keys,
                             values, dout, p, ds);
    store_square<Tile>(scores, ds);
    __syncthreads();
    add_product<Tile, false>(sums, scores, keys);
  }
  store_rows<Tile>(head_rows(s, x.dqkv, all, batch, head).from(query), sums, left, d);
}

// dk and dv. Blocks: [tiles of keys, the first, which most queries see, first; b; g].
template <typename T, typename Tile>
__global__ void attention_dkv_kernel(AttentionShape s, AttentionBackward<T> x, bool wide) {
  __shared__ typename Tile::Rows queries, keys, values, dout;
  __shared__ typename Tile::Square weights, scores;
  const auto [tile, shared, batch] = block_place(s, s.kv_heads);
  const std::int64_t key = tile * Tile::kRows;
  const std::int64_t all = s.all_heads(), left = s.sequence - key;
  const std::int64_t key_head = s.heads + shared, value_head = s.heads + s.kv_heads + shared;
  const int d = static_cast<int>(s.head_dim);

  typename Tile::RowsPart dk{}, dv{};
  load_rows<Tile>(keys, head_rows(s, x.qkv, all, batch, key_head).from(key), left, d, wide);
  load_rows<Tile>(values, head_rows(s, x.qkv, all, batch, value_head).from(key), left, d, wide);
  for (std::int64_t head = shared * s.group(); head < (shared + 1) * s.group(); ++head) {
    const auto q = head_rows(s, x.qkv, all, batch, head);
    const auto g = head_rows(s, x.dout, s.heads, batch, head);
    const std::int64_t statistics = (batch * s.heads + head) * s.sequence;
    for (std::int64_t query = key; query < s.sequence; query += Tile::kRows) {
      __syncthreads();  // the last tile of queries is read
      load_rows<Tile>(queries, q.from(query), s.sequence - query, d, wide);
      load_rows<Tile>(dout, g.from(query), s.sequence - query, d, wide);
      __syncthreads();
      typename Tile::SquarePart p, ds;
      gradient_of_scores<Tile>(s, x.lse + statistics, x.delta + statistics, query, key, queries,
                               keys, values, dout, p, ds);
      store_square<Tile>(weights, p);
      store_square<Tile>(scores, ds);
      __syncthreads();
      add_product<Tile, true>(dv, weights, dout);
      add_product<Tile, true>(dk, scores, queries);
    }
  }
  store_rows<Tile>(head_rows(s, x.dqkv, all, batch, key_head).from(key), dk, left, d);
  store_rows<Tile>(head_rows(s, x.dqkv, all, batch, value_head).from(key), dv, left, d);
}

}  // namespace zplan::exec::cuda
