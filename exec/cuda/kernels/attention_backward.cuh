// Backward attention [Dao22]: with p = exp(scale q k^T - lse), dp = dout v^T and
// delta = sum over v of dout out, the gradient of the scores is ds = scale p (dp - delta); then
// dq = ds k, dk = ds^T q, dv = p^T dout. Key-value heads sum over the query heads that share them.
#pragma once

#include <cmath>

#include "exec/cuda/kernels/attention_tiles.cuh"

namespace zplan::exec::cuda {

// delta[b, a, s]; a warp per row of dout and out[b, s, a, v], rows grid-stride. 2 b s a v flop.
template <typename T>
__global__ void attention_delta_kernel(AttentionShape s, AttentionBackward<T> x) {
  const std::int64_t rows = s.batch * s.sequence * s.heads;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const std::int64_t step = threads_of_grid() / kWarp;
  for (std::int64_t row = thread_of_grid() / kWarp; row < rows; row += step) {
    float sum = 0;
    for (std::int64_t at = row * s.value_dim + lane; at < (row + 1) * s.value_dim; at += kWarp)
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
  const std::int64_t shared = head / s.group(), left = s.sequence - query;
  const auto k = key_rows(s, x.qkv, batch, shared);
  const auto v = value_rows(s, x.qkv, batch, shared);
  const std::int64_t statistics = (batch * s.heads + head) * s.sequence;
  const int d = static_cast<int>(s.head_dim), value_dim = static_cast<int>(s.value_dim);

  typename Tile::RowsPart sums{};
  load_rows<Tile>(queries, query_rows(s, x.qkv, batch, head).from(query), left, d, wide);
  load_rows<Tile>(dout, out_rows(s, x.dout, batch, head).from(query), left, value_dim, wide);
  for (std::int64_t key = 0; key <= query; key += Tile::kRows) {
    __syncthreads();  // the last tile of keys is read
    load_rows<Tile>(keys, k.from(key), s.sequence - key, d, wide);
    load_rows<Tile>(values, v.from(key), s.sequence - key, value_dim, wide);
    __syncthreads();
    typename Tile::SquarePart p, ds;
    gradient_of_scores<Tile>(s, x.lse + statistics, x.delta + statistics, query, key, queries, keys,
                             values, dout, p, ds);
    store_square<Tile>(scores, ds);
    __syncthreads();
    add_product<Tile, false>(sums, scores, keys);
  }
  store_rows<Tile>(query_rows(s, x.dqkv, batch, head).from(query), sums, left, d);
}

// dk and dv. Blocks: [tiles of keys, the first, which most queries see, first; b; g].
template <typename T, typename Tile>
__global__ void attention_dkv_kernel(AttentionShape s, AttentionBackward<T> x, bool wide) {
  __shared__ typename Tile::Rows queries, keys, values, dout;
  __shared__ typename Tile::Square weights, scores;
  const auto [tile, shared, batch] = block_place(s, s.kv_heads);
  const std::int64_t key = tile * Tile::kRows;
  const std::int64_t left = s.sequence - key;
  const int d = static_cast<int>(s.head_dim), value_dim = static_cast<int>(s.value_dim);

  typename Tile::RowsPart dk{}, dv{};
  load_rows<Tile>(keys, key_rows(s, x.qkv, batch, shared).from(key), left, d, wide);
  load_rows<Tile>(values, value_rows(s, x.qkv, batch, shared).from(key), left, value_dim, wide);
  for (std::int64_t head = shared * s.group(); head < (shared + 1) * s.group(); ++head) {
    const auto q = query_rows(s, x.qkv, batch, head);
    const auto g = out_rows(s, x.dout, batch, head);
    const std::int64_t statistics = (batch * s.heads + head) * s.sequence;
    for (std::int64_t query = key; query < s.sequence; query += Tile::kRows) {
      __syncthreads();  // the last tile of queries is read
      load_rows<Tile>(queries, q.from(query), s.sequence - query, d, wide);
      load_rows<Tile>(dout, g.from(query), s.sequence - query, value_dim, wide);
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
  store_rows<Tile>(key_rows(s, x.dqkv, batch, shared).from(key), dk, left, d);
  store_rows<Tile>(value_rows(s, x.dqkv, batch, shared).from(key), dv, left, value_dim);
}

}  // namespace zplan::exec::cuda
