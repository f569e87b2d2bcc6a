// Device code of sums over rows: of an array (column_sums.h) or of terms made of several
// (norm.cuh). A block sums a tile of neighbouring columns over a piece of the rows: each warp takes
// every eighth row, a lane kWidth columns; then the sums of the warps are added in order.
#pragma once

#include "exec/cuda/kernels/device_support.cuh"

namespace zplan::exec::cuda {

inline constexpr int kTileWarps = 8;

template <int kWidth>
inline constexpr int kTileColumns = kWarp * kWidth;

inline constexpr int kSumsAhead = 8;  // [assumed] rows of one value that a thread has under way

// load(row, column) gives kTerms times kWidth values; store(term, column, sum) is called once per
// term and column of the tile. columns is a multiple of kWidth.
template <int kTerms, int kWidth, typename Load, typename Store>
__device__ inline void sum_tile(std::int64_t begin, std::int64_t end, std::int64_t first_column,
                                std::int64_t columns, const Load& load, const Store& store) {
  constexpr int kValues = kTerms * kWidth;
  __shared__ float of_warps[kTileWarps][kValues][kWarp];
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const std::int64_t column = first_column + lane * kWidth;
  Values<float, kValues> sums{};
  if (column < columns) {
    const auto add = [&](std::int64_t, const Values<float, kValues>& terms) {
#pragma unroll
      for (int k = 0; k < kValues; ++k) sums.at[k] += terms.at[k];
    };
    const auto read = [&](std::int64_t row) { return load(row, column); };
    if constexpr (kValues == 1) {
      for_ahead<kSumsAhead>(begin + warp, end, std::int64_t{kTileWarps}, read, add);
    } else {
      for (std::int64_t row = begin + warp; row < end; row += kTileWarps) add(row, read(row));
    }
  }
#pragma unroll
  for (int k = 0; k < kValues; ++k) of_warps[warp][k][lane] = sums.at[k];
  __syncthreads();
  for (int i = static_cast<int>(threadIdx.x); i < kValues * kWarp; i += kTileWarps * kWarp) {
    const int k = i / kWarp, from = i % kWarp;
    const std::int64_t to = first_column + from * kWidth + k % kWidth;
    float sum = of_warps[0][k][from];
    for (int w = 1; w < kTileWarps; ++w) sum += of_warps[w][k][from];
    if (to < columns) store(k / kWidth, to, sum);
  }
  __syncthreads();  // of_warps may be written again
}

// Calls body(tile's first column, piece) for the tiles and pieces of this block.
template <int kWidth, typename Body>
__device__ inline void for_tiles(std::int64_t columns, std::int64_t pieces, const Body& body) {
  const std::int64_t tiles = (columns + kTileColumns<kWidth> - 1) / kTileColumns<kWidth>;
  for (std::int64_t i = blockIdx.x; i < tiles * pieces; i += gridDim.x)
    body(i % tiles * kTileColumns<kWidth>, i / tiles);
}

struct Pieces {
  std::int64_t rows;  // of a piece; the last may have fewer
  std::int64_t count;
};

// sums [pieces, kTerms, columns] of terms(row, column) over `rows` rows.
template <int kTerms, int kWidth, typename Terms>
__device__ inline void sum_pieces(float* sums, std::int64_t rows, std::int64_t columns,
                                  const Pieces& pieces, const Terms& terms) {
  for_tiles<kWidth>(columns, pieces.count, [&](std::int64_t first_column, std::int64_t piece) {
    const std::int64_t begin = piece * pieces.rows;
    const std::int64_t end = begin + pieces.rows < rows ? begin + pieces.rows : rows;
    float* out = sums + piece * kTerms * columns;
    sum_tile<kTerms, kWidth>(
        begin, end, first_column, columns, terms,
        [=](int term, std::int64_t column, float sum) { out[term * columns + column] = sum; });
  });
}

// in [rows, columns]
template <typename T, int kWidth>
__global__ void column_pieces_kernel(float* sums, const T* in, std::int64_t rows,
                                     std::int64_t columns, Pieces pieces) {
  sum_pieces<1, kWidth>(sums, rows, columns, pieces, [=](std::int64_t row, std::int64_t column) {
    return load<kWidth>(in + row * columns + column);
  });
}

// out0 and out1 [columns] (+)= sums [pieces, terms, columns] over the pieces, in order by warps;
// out1 is the second term's, null of one term.
template <typename G>
__global__ void add_pieces_kernel(G* out0, G* out1, const float* sums, std::int64_t pieces,
                                  std::int64_t columns, bool accumulate) {
  const std::int64_t all = (out1 == nullptr ? 1 : 2) * columns;
  for_tiles<1>(all, 1, [=](std::int64_t first_column, std::int64_t) {
    sum_tile<1, 1>(
        0, pieces, first_column, all,
        [=](std::int64_t row, std::int64_t column) { return load<1>(sums + row * all + column); },
        [=](int, std::int64_t column, float sum) {
          G* to = column < columns ? out0 + column : out1 + (column - columns);
          *to = narrow<G>(accumulate ? widen(*to) + sum : sum);
        });
  });
}

}  // namespace zplan::exec::cuda
