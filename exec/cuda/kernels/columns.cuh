// Device code of columns.h.
#pragma once

#include "exec/cuda/kernels/columns.h"
#include "exec/cuda/kernels/device_support.cuh"

namespace zplan::exec::cuda {

// Where column j of a piece stands in a row of all.
__device__ inline std::int64_t column_of(const ColumnPieces& s, std::int64_t piece,
                                         std::int64_t j) {
  const std::int64_t first = s.segments[0], second = s.segments[1];
  if (j < first) return piece * first + j;
  if (j < first + second) return s.pieces * first + piece * second + (j - first);
  return s.pieces * (first + second) + piece * s.segments[2] + (j - first - second);
}

// [assumed] rows over which a thread moves its pack of columns, and how many of them at a time.
inline constexpr int kMovedRows = 16, kMovedAhead = 4;

// One of y and x is [rows, pieces * width], the other [pieces, rows, width]; kWidth divides each
// segment. A block has so many packs side by side of so many rows.
template <typename T, int kWidth, bool kSplits>
__global__ void move_columns_kernel(T* y, const T* x, ColumnPieces s, std::int64_t width) {
  const std::int64_t packs = s.pieces * width / kWidth;
  const std::int64_t tiles = (packs + blockDim.x - 1) / blockDim.x;
  const std::int64_t from_row = kSplits ? s.pieces * width : width;  // elements from row to row
  const std::int64_t to_row = kSplits ? width : s.pieces * width;
  for_rows((s.rows + kMovedRows - 1) / kMovedRows * tiles, [&](std::int64_t i) {
    const std::int64_t pack = i % tiles * blockDim.x + threadIdx.x, begin = i / tiles * kMovedRows;
    if (pack >= packs) return;
    const std::int64_t piece = pack * kWidth / width, j = pack * kWidth % width;
    const std::int64_t in_row = column_of(s, piece, j), in_piece = piece * s.rows * width + j;
    const T* from = x + (kSplits ? in_row : in_piece) + begin * from_row;
    T* to = y + (kSplits ? in_piece : in_row) + begin * to_row;
    for_ahead<kMovedAhead>(
        0, static_cast<int>(s.rows - begin < kMovedRows ? s.rows - begin : kMovedRows), 1,
        [=](int row) { return load_bits<kWidth>(from + row * from_row); },
        [=](int row, const auto& bits) { store_bits<kWidth>(to + row * to_row, bits); });
  });
}

}  // namespace zplan::exec::cuda
