// Device code of columns.h.
#pragma once

#include "exec/cuda/kernels/columns.h"
#include "exec/cuda/kernels/device_support.cuh"

namespace zplan::exec::cuda {

// Where column j of a piece stands in a row of all.
__device__ inline std::int64_t column_of(const ColumnPieces& s, std::int64_t piece,
                                         std::int64_t j) {
  std::int64_t begin = 0;
  int i = 0;
  for (; i < 2 && j >= s.segments[i]; ++i) {
    j -= s.segments[i];
    begin += s.pieces * s.segments[i];
  }
  return begin + piece * s.segments[i] + j;
}

// One of y and x is [rows, pieces * width], the other [pieces, rows, width]; kWidth divides each
// segment.
template <typename T, int kWidth, bool kSplits>
__global__ void move_columns_kernel(T* y, const T* x, ColumnPieces s, std::int64_t width) {
  for_rows(s.pieces * s.rows, [=](std::int64_t i) {
    const std::int64_t piece = i / s.rows, row = i % s.rows;
    for_columns<kWidth>(width, [=](std::int64_t j) {
      const std::int64_t in_row = row * s.pieces * width + column_of(s, piece, j);
      const std::int64_t in_piece = i * width + j;
      if constexpr (kSplits) {
        store<kWidth>(y + in_piece, load<kWidth>(x + in_row));
      } else {
        store<kWidth>(y + in_row, load<kWidth>(x + in_piece));
      }
    });
  });
}

}  // namespace zplan::exec::cuda
