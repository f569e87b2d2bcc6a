// Row-major matrix products in the terms of a column-major library. A row-major matrix is its
// transpose in column-major order, so C = op(A) op(B) is computed as C^T = op(B)^T op(A)^T: the
// library's first operand is B, its second A, and what is a row there is a column here.
#pragma once

#include <cstdint>
#include <numeric>

#include "exec/kernels/arguments.h"
#include "planner/program/job/program.h"

namespace zplan::exec::cuda {

struct ColumnMajorMatrix {
  std::int64_t rows, columns;  // as stored; columns lie one after the other, rows elements apart
  bool transposed;             // in the product
};

struct ColumnMajorGemm {
  ColumnMajorMatrix first, second, result;  // B, A and C of the row-major product
};

// An epilogue may read or write an auxiliary matrix, laid out like C. The library demands that its
// columns lie a multiple of so many elements apart [cublasLt.h].
inline constexpr std::int64_t kAuxStep = 8;
constexpr bool takes_aux(const ColumnMajorMatrix& result) { return result.rows % kAuxStep == 0; }

// C[m, n] = op(A) op(B), sums over k.
constexpr ColumnMajorGemm column_major(GemmOp op, std::int64_t m, std::int64_t n, std::int64_t k) {
  const bool b_transposed = op == GemmOp::kNT, a_transposed = op == GemmOp::kTN;
  return {.first = {b_transposed ? k : n, b_transposed ? n : k, b_transposed},
          .second = {a_transposed ? m : k, a_transposed ? k : m, a_transposed},
          .result = {n, m, false}};
}

// Bytes that divide the address of a view at every instance and on every rank, at most the
// alignment of a buffer.
inline std::uint32_t alignment_of(const Program& program, const View& view) {
  std::int64_t bytes = kBufferAlignment.value;
  for (const Bytes part : {view.offset, program.buffers[view.buffer].slot_size})
    bytes = std::gcd(bytes, part.value);
  for (const std::int64_t stride : view.strides) bytes = std::gcd(bytes, stride);
  return static_cast<std::uint32_t>(bytes);
}

}  // namespace zplan::exec::cuda
