// Tiles of attention: kRows rows of a head, kDim elements each, as float32 in shared memory, worked
// on by kSide x kSide threads. Thread (x, y) holds the elements (y + i kSide, x + j kSide) of a
// product. In products the lanes of a warp read different banks or one address.
#pragma once

#include <cstdint>

#include "exec/cuda/kernels/attention_kernels.h"
#include "exec/cuda/kernels/device_support.cuh"

namespace zplan::exec::cuda {

template <int kTileRows, int kTileDim>
struct AttentionTile {
  static constexpr int kRows = kTileRows, kDim = kTileDim;
  static constexpr int kSide = kRows < 16 ? kRows : 16;
  static constexpr int kThreads = kSide * kSide;
  static constexpr int kPer = kRows / kSide;     // rows of a thread, and columns of a square
  static constexpr int kColumns = kDim / kSide;  // columns of a thread

  using Rows = float[kRows][kDim + 1];
  using Square = float[kRows][kRows + 1];
  using SquarePart = float[kPer][kPer];
  using RowsPart = float[kPer][kColumns];

  static __device__ int x() { return static_cast<int>(threadIdx.x) % kSide; }
  static __device__ int y() { return static_cast<int>(threadIdx.x) / kSide; }
};

// Rows of one head of a packed tensor, `stride` elements apart.
template <typename T>
struct HeadRows {
  T* data;
  std::int64_t stride;
  __device__ HeadRows from(std::int64_t row) const { return {data + row * stride, stride}; }
};

// From a column of qkv, or its gradient, in batch entry `batch`.
template <typename T>
__device__ HeadRows<T> qkv_rows(const AttentionShape& s, T* x, std::int64_t batch,
                                std::int64_t column) {
  return {x + batch * s.sequence * s.columns() + column, s.columns()};
}
template <typename T>
__device__ HeadRows<T> query_rows(const AttentionShape& s, T* x, std::int64_t batch,
                                  std::int64_t head) {
  return qkv_rows(s, x, batch, head * s.head_dim);
}
template <typename T>
__device__ HeadRows<T> key_rows(const AttentionShape& s, T* x, std::int64_t batch,
                                std::int64_t kv_head) {
  return qkv_rows(s, x, batch, s.keys() + kv_head * s.head_dim);
}
template <typename T>
__device__ HeadRows<T> value_rows(const AttentionShape& s, T* x, std::int64_t batch,
                                  std::int64_t kv_head) {
  return qkv_rows(s, x, batch, s.values() + kv_head * s.value_dim);
}

// Head `head` of x[b, s, a, v] in batch entry `batch`.
template <typename T>
__device__ HeadRows<T> out_rows(const AttentionShape& s, T* x, std::int64_t batch,
                                std::int64_t head) {
  return {x + (batch * s.sequence * s.heads + head) * s.value_dim, s.heads * s.value_dim};
}

// What a block works on. Blocks are numbered with the tile as the slowest index.
struct BlockPlace {
  std::int64_t tile, head, batch;
};

__device__ inline BlockPlace block_place(const AttentionShape& s, std::int64_t heads) {
  const std::int64_t place = blockIdx.x, of_tile = heads * s.batch;
  return {place / of_tile, place % heads, place % of_tile / heads};
}

// Zeros beyond `rows` rows and `columns` columns, which kWidth divides.
template <typename Tile, int kWidth, typename T>
__device__ void load_packs(typename Tile::Rows& tile, HeadRows<const T> from, std::int64_t rows,
                           int columns) {
  constexpr int kPacks = Tile::kDim / kWidth;
#pragma unroll 2  // more would cost registers, hence blocks that run at once
  for (int at = static_cast<int>(threadIdx.x); at < Tile::kRows * kPacks; at += Tile::kThreads) {
    const int row = at / kPacks, column = at % kPacks * kWidth;
    Values<float, kWidth> values{};
    if (row < rows && column < columns)
      values = load<kWidth>(from.data + row * from.stride + column);
#pragma unroll
    for (int k = 0; k < kWidth; ++k) tile[row][column + k] = values.at[k];
  }
}

// `wide`: in accesses of 16 bytes.
template <typename Tile, typename T>
__device__ void load_rows(typename Tile::Rows& tile, HeadRows<const T> from, std::int64_t rows,
                          int columns, bool wide) {
  if (wide) {
    load_packs<Tile, 16 / sizeof(T)>(tile, from, rows, columns);
  } else {
    load_packs<Tile, 1>(tile, from, rows, columns);
  }
}

template <typename Tile, typename T>
__device__ void store_rows(HeadRows<T> to, const typename Tile::RowsPart& part, std::int64_t rows,
                           int columns) {
  for (int i = 0; i < Tile::kPer; ++i) {
    const int row = Tile::y() + i * Tile::kSide;
    for (int j = 0; j < Tile::kColumns; ++j) {
      const int column = Tile::x() + j * Tile::kSide;
      if (row < rows && column < columns) to.data[row * to.stride + column] = narrow<T>(part[i][j]);
    }
  }
}

// part = a b^T
template <typename Tile>
__device__ void multiply_transposed(typename Tile::SquarePart& part, const typename Tile::Rows& a,
                                    const typename Tile::Rows& b) {
  for (int i = 0; i < Tile::kPer; ++i)
    for (int j = 0; j < Tile::kPer; ++j) part[i][j] = 0;
#pragma unroll 8
  for (int p = 0; p < Tile::kDim; ++p) {
#pragma unroll
    for (int i = 0; i < Tile::kPer; ++i) {
#pragma unroll
      for (int j = 0; j < Tile::kPer; ++j)
        part[i][j] += a[Tile::y() + i * Tile::kSide][p] * b[Tile::x() + j * Tile::kSide][p];
    }
  }
}

// part += square b, or square^T b
template <typename Tile, bool kTransposed>
__device__ void add_product(typename Tile::RowsPart& part, const typename Tile::Square& square,
                            const typename Tile::Rows& b) {
#pragma unroll 4
  for (int k = 0; k < Tile::kRows; ++k) {
#pragma unroll
    for (int i = 0; i < Tile::kPer; ++i) {
      const int row = Tile::y() + i * Tile::kSide;
      const float factor = kTransposed ? square[k][row] : square[row][k];
#pragma unroll
      for (int j = 0; j < Tile::kColumns; ++j)
        part[i][j] += factor * b[k][Tile::x() + j * Tile::kSide];
    }
  }
}

// Over the threads that hold one row: neighbours in a warp.
template <typename Tile>
__device__ float row_max(float value) {
  for (int lanes = Tile::kSide / 2; lanes > 0; lanes /= 2)
    value = fmaxf(value, of_lane(value, lanes));
  return value;
}
template <typename Tile>
__device__ float row_sum(float value) {
  for (int lanes = Tile::kSide / 2; lanes > 0; lanes /= 2) value += of_lane(value, lanes);
  return value;
}

}  // namespace zplan::exec::cuda
