#include "exec/cpu/kernels/tile_gemm.h"

#include "exec/cpu/kernels/lanes.h"

namespace zplan::exec::cpu {
namespace {

// One tile of kRows x (kVectors * lanes), accumulated in registers over the whole of k.
// `adjacent`: the rows of a column of A are neighbours.
template <typename T, int kRows, int kVectors, bool adjacent>
void register_tile(const TileGemm<T>& g) {
  using V = typename Lanes<T>::Type;
  using InMemory = typename Lanes<T>::InMemory;
  V sum[kRows][kVectors] = {};
#pragma GCC unroll 12
  for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 2
    for (int j = 0; j < kVectors; ++j) __builtin_prefetch(g.c + i * g.ldc + j * kVectorLanes<T>, 1);
  }
  const T* a = g.a;
  const T* b_row = g.b;
  for (std::int64_t p = 0; p < g.k; ++p, a += g.a_column_stride, b_row += g.ldb) {
    V b[kVectors];
#pragma GCC unroll 2
    for (int j = 0; j < kVectors; ++j) b[j] = reinterpret_cast<const InMemory*>(b_row)[j];
#pragma GCC unroll 12
    for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 2
      for (int j = 0; j < kVectors; ++j) sum[i][j] += a[adjacent ? i : i * g.a_row_stride] * b[j];
    }
  }
#pragma GCC unroll 12
  for (int i = 0; i < kRows; ++i) {
    auto* c = reinterpret_cast<InMemory*>(g.c + i * g.ldc);
#pragma GCC unroll 2
    for (int j = 0; j < kVectors; ++j) c[j] = g.accumulate ? c[j] + sum[i][j] : sum[i][j];
  }
}

// All rows, as many as a register tile has or fewer.
template <typename T, int kVectors, bool adjacent, int kRows = kTileRows>
void tile_of_rows(const TileGemm<T>& g) {
  if (g.m >= kRows) {
    register_tile<T, kRows, kVectors, adjacent>(g);
  } else if constexpr (kRows > 1) {
    tile_of_rows<T, kVectors, adjacent, kRows - 1>(g);
  }
}

template <typename T>
TileGemm<T> below(TileGemm<T> g, std::int64_t rows) {
  g.m -= rows;
  g.a += rows * g.a_row_stride;
  g.c += rows * g.ldc;
  return g;
}

template <typename T>
TileGemm<T> right_of(TileGemm<T> g, std::int64_t columns) {
  g.n -= columns;
  g.b += columns;
  g.c += columns;
  return g;
}

// All rows of one column strip of kVectors vectors.
template <typename T, int kVectors>
void column_strip(TileGemm<T> g) {
  for (; g.m > 0; g = below(g, kTileRows)) {
    if (g.a_row_stride == 1) {
      tile_of_rows<T, kVectors, true>(g);
    } else {
      tile_of_rows<T, kVectors, false>(g);
    }
  }
}

// Fewer columns than a vector has lanes.
template <typename T>
void scalar_strip(const TileGemm<T>& g) {
  for (std::int64_t i = 0; i < g.m; ++i) {
    for (std::int64_t j = 0; j < g.n; ++j) {
      T sum = 0;
      for (std::int64_t p = 0; p < g.k; ++p) {
        sum += g.a[i * g.a_row_stride + p * g.a_column_stride] * g.b[p * g.ldb + j];
      }
      T& c = g.c[i * g.ldc + j];
      c = (g.accumulate ? c : static_cast<T>(0)) + sum;
    }
  }
}

}  // namespace

template <typename T>
void tile_gemm(const TileGemm<T>& whole) {
  TileGemm<T> g = whole;
  for (; g.n >= kTileColumns<T>; g = right_of(g, kTileColumns<T>)) column_strip<T, 2>(g);
  if (g.n >= kVectorLanes<T>) {
    column_strip<T, 1>(g);
    g = right_of(g, kVectorLanes<T>);
  }
  if (g.n > 0) scalar_strip(g);
}

template void tile_gemm<float>(const TileGemm<float>&);
template void tile_gemm<double>(const TileGemm<double>&);

}  // namespace zplan::exec::cpu
