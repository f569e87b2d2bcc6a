// The GEMM of this folder. Three nested blocks: kPanelDepth rows of B (so that a panel of B stays
// in the first-level cache), kBlockColumns columns (so that the packed block stays in the
// second-level cache), kBlockRows rows of A (what one thread owns at a time). [Goto08]
#include <algorithm>

#include "exec/cpu/kernels/gemm.h"
#include "exec/cpu/kernels/kernel_support.h"
#include "exec/cpu/kernels/tile_gemm.h"

namespace zplan::exec::cpu {
namespace {

constexpr std::int64_t kPanelDepth = 256;
constexpr std::int64_t kBlockColumns = 512;
constexpr std::int64_t kBlockRows = 48;  // a multiple of every register tile height

// The part of op(B) being worked on: rows [row, row + depth), columns [column, column + columns).
struct Block {
  std::int64_t row, depth, column, columns;
};

// Columns [first, first + width) of the block, packed as [depth, kTileColumns].
template <typename T>
void pack_panel(const GemmShape& s, const T* b, const Block& block, std::int64_t first, T* panel) {
  const std::int64_t width = std::min(kTileColumns<T>, block.columns - first);
  const std::int64_t column = block.column + first;
  if (s.op == GemmOp::kNT) {
    for (std::int64_t j = 0; j < width; ++j) {
      const T* from = b + (column + j) * s.ldb + block.row;
      for (std::int64_t p = 0; p < block.depth; ++p) panel[p * kTileColumns<T> + j] = from[p];
    }
  } else {
    for (std::int64_t p = 0; p < block.depth; ++p) {
      const T* from = b + (block.row + p) * s.ldb + column;
      std::copy_n(from, width, panel + p * kTileColumns<T>);
    }
  }
}

// Rows [row, row + rows) of C gain A times the packed block.
template <typename T>
void multiply_rows(const GemmShape& s, const GemmOperands<T>& x, const Block& block,
                   const T* packed, std::int64_t row, std::int64_t rows, bool accumulate) {
  TileGemm<T> g{};
  g.m = rows;
  g.k = block.depth;
  g.a_row_stride = s.op == GemmOp::kTN ? 1 : s.lda;
  g.a_column_stride = s.op == GemmOp::kTN ? s.lda : 1;
  g.a = x.a + row * g.a_row_stride + block.row * g.a_column_stride;
  g.ldb = kTileColumns<T>;
  g.ldc = s.ldc;
  g.accumulate = accumulate;
  for (std::int64_t first = 0; first < block.columns; first += kTileColumns<T>) {
    g.n = std::min(kTileColumns<T>, block.columns - first);
    g.b = packed + first * block.depth;
    g.c = x.c + row * s.ldc + block.column + first;
    tile_gemm(g);
  }
}

template <typename T>
void multiply_block(const GemmShape& s, const GemmOperands<T>& x, const Block& block, T* packed,
                    bool accumulate) {
  const std::int64_t panels = ceil_div(block.columns, kTileColumns<T>);
  const std::int64_t row_blocks = ceil_div(s.m, kBlockRows);
#pragma omp parallel if (s.m * block.columns * block.depth > kLeastParallelWork)
  {
#pragma omp for schedule(static)
    for (std::int64_t i = 0; i < panels; ++i) {
      const std::int64_t first = i * kTileColumns<T>;
      pack_panel(s, x.b, block, first, packed + first * block.depth);
    }
#pragma omp for schedule(static)
    for (std::int64_t i = 0; i < row_blocks; ++i) {
      const std::int64_t row = i * kBlockRows;
      const std::int64_t rows = std::min(kBlockRows, s.m - row);
      multiply_rows(s, x, block, packed, row, rows, accumulate);
    }
  }
}

// Rows of C take the bias, or zeros without one, unless the old C is to be kept.
template <typename T>
void start_rows(const GemmShape& s, const GemmOperands<T>& x) {
  for_rows(s.m, s.n, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      T* c = x.c + i * s.ldc;
      for (std::int64_t j = 0; j < s.n; ++j) {
        c[j] = (s.accumulate ? c[j] : static_cast<T>(0)) + (s.bias ? x.bias[j] : static_cast<T>(0));
      }
    }
  });
}

}  // namespace

template <typename T>
Bytes blocked_gemm_scratch_bytes(const GemmShape& shape) {
  const std::int64_t columns = round_up(std::min(shape.n, kBlockColumns), kTileColumns<T>);
  return {aligned_bytes<T>(columns * std::min(shape.k, kPanelDepth))};
}

template <typename T>
void blocked_gemm(const GemmShape& shape, const GemmOperands<T>& operands, Scratch scratch) {
  const GemmShape s = with_leading_dimensions(shape);
  const Bytes needed = blocked_gemm_scratch_bytes<T>(s);
  T* packed = ScratchCutter(scratch).take<T>(needed.value / static_cast<std::int64_t>(sizeof(T)));
  const bool started = s.bias || s.k == 0;
  if (started) start_rows(s, operands);
  for (std::int64_t column = 0; column < s.n; column += kBlockColumns) {
    for (std::int64_t row = 0; row < s.k; row += kPanelDepth) {
      const Block block{row, std::min(kPanelDepth, s.k - row), column,
                        std::min(kBlockColumns, s.n - column)};
      multiply_block(s, operands, block, packed, started || s.accumulate || row > 0);
    }
  }
}

template void blocked_gemm<float>(const GemmShape&, const GemmOperands<float>&, Scratch);
template void blocked_gemm<double>(const GemmShape&, const GemmOperands<double>&, Scratch);
template Bytes blocked_gemm_scratch_bytes<float>(const GemmShape&);
template Bytes blocked_gemm_scratch_bytes<double>(const GemmShape&);

}  // namespace zplan::exec::cpu
