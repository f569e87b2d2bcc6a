// The GEMM of this folder. Three nested blocks: kPanelDepth rows of B (so that a panel of B stays
// in the first-level cache), kBlockColumns columns (so that the packed block stays in the caches
// behind it), rows of A (what one thread packs and owns at a time, in its second-level cache).
// [Goto08]
#include <omp.h>

#include <algorithm>

#include "exec/cpu/kernels/gemm.h"
#include "exec/cpu/kernels/kernel_support.h"
#include "exec/cpu/kernels/pack.h"
#include "exec/cpu/kernels/tile_gemm.h"

namespace zplan::exec::cpu {
namespace {

constexpr std::int64_t kPanelDepth = 256;
template <typename T>
constexpr std::int64_t kBlockColumns = 2048 / sizeof(T);
constexpr std::int64_t kPackedColumns = 128;  // of a block, that a thread packs at a time
constexpr std::int64_t kMostRows = 144;  // of a block, a multiple of every register tile height

// The part of op(B) being worked on: rows [row, row + depth), columns [column, column + columns).
struct Block {
  std::int64_t row, depth, column, columns;
};

template <typename T>
std::int64_t packed_rows_bytes(const GemmShape& s) {
  const std::int64_t rows = round_up(std::min(s.m, kMostRows), kTileRows);
  return aligned_bytes<T>(rows * std::min(s.k, kPanelDepth) + kPackSlack<T>);
}

template <typename T>
std::int64_t packed_block_bytes(const GemmShape& s) {
  const std::int64_t columns = round_up(std::min(s.n, kBlockColumns<T>), kTileColumns<T>);
  return aligned_bytes<T>(columns * std::min(s.k, kPanelDepth) + kPackSlack<T>);
}

// Columns [first, first + width) of the block, panel by panel as [depth, kTileColumns].
template <typename T>
void pack_panels(const GemmShape& s, const T* b, const Block& block, std::int64_t first,
                 std::int64_t width, T* panels) {
  const std::int64_t column = block.column + first;
  if (s.op != GemmOp::kNT) {
    pack_rows(b + block.row * s.ldb + column, s.ldb, width, block.depth, panels, kTileColumns<T>);
    return;
  }
  for (std::int64_t j = 0; j < width; j += kTileColumns<T>, panels += kTileColumns<T> * block.depth)
    pack_turned(b + (column + j) * s.ldb + block.row, s.ldb, std::min(kTileColumns<T>, width - j),
                block.depth, panels, kTileColumns<T>);
}

// Rows [row, row + rows) of A, strip by strip as [depth, kTileRows].
template <typename T>
void pack_strips(const GemmShape& s, const T* a, const Block& block, std::int64_t row,
                 std::int64_t rows, T* strips) {
  if (s.op == GemmOp::kTN) {
    pack_rows(a + block.row * s.lda + row, s.lda, rows, block.depth, strips, kTileRows);
    return;
  }
  for (std::int64_t i = 0; i < rows; i += kTileRows, strips += kTileRows * block.depth)
    pack_turned(a + (row + i) * s.lda + block.row, s.lda, std::min(kTileRows, rows - i),
                block.depth, strips, kTileRows);
}

// Rows [row, row + rows) of C gain the strips of A times the packed block.
template <typename T>
void multiply_rows(const GemmShape& s, T* c, const Block& block, const T* packed, const T* strips,
                   std::int64_t row, std::int64_t rows, bool accumulate) {
  TileGemm<T> g{};
  g.k = block.depth;
  g.a_row_stride = 1;
  g.a_column_stride = kTileRows;
  g.ldb = kTileColumns<T>;
  g.ldc = s.ldc;
  g.accumulate = accumulate;
  for (std::int64_t first = 0; first < block.columns; first += kTileColumns<T>) {
    g.n = std::min(kTileColumns<T>, block.columns - first);
    g.b = packed + first * block.depth;
    for (std::int64_t i = 0; i < rows; i += kTileRows) {
      g.m = std::min(kTileRows, rows - i);
      g.a = strips + i * block.depth;
      g.c = c + (row + i) * s.ldc + block.column + first;
      tile_gemm(g);
    }
  }
}

// What the threads share, and what each has of it.
template <typename T>
struct Packed {
  T* block;
  std::byte* strips;
  std::int64_t strips_bytes;  // of a thread
  int threads;
};

// Threads get blocks of rows alike in size; the sums do not depend on where rows are cut.
std::int64_t block_rows(std::int64_t m, std::int64_t threads) {
  const std::int64_t blocks = round_up(ceil_div(m, kMostRows), threads);
  return round_up(ceil_div(m, blocks), kTileRows);
}

template <typename T>
void multiply_block(const GemmShape& s, const GemmOperands<T>& x, const Block& block,
                    const Packed<T>& packed, bool accumulate) {
  const std::int64_t rows = block_rows(s.m, packed.threads);
#pragma omp parallel num_threads(packed.threads) if (packed.threads > 1)
  {
    T* strips = reinterpret_cast<T*>(packed.strips + omp_get_thread_num() * packed.strips_bytes);
#pragma omp for schedule(static)
    for (std::int64_t first = 0; first < block.columns; first += kPackedColumns)
      pack_panels(s, x.b, block, first, std::min(kPackedColumns, block.columns - first),
                  packed.block + first * block.depth);
#pragma omp for schedule(static)
    for (std::int64_t row = 0; row < s.m; row += rows) {
      const std::int64_t count = std::min(rows, s.m - row);
      pack_strips(s, x.a, block, row, count, strips);
      multiply_rows(s, x.c, block, packed.block, strips, row, count, accumulate);
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

template <typename T>
Packed<T> cut(const GemmShape& s, Scratch scratch) {
  const std::int64_t block = packed_block_bytes<T>(s), strips = packed_rows_bytes<T>(s);
  const std::int64_t room = (static_cast<std::int64_t>(scratch.size()) - block) / strips;
  ZPLAN_ASSERT(room > 0);
  const bool is_small = s.m * s.n * s.k <= kLeastParallelWork;
  const std::int64_t most = is_small ? 1 : std::min<std::int64_t>(omp_get_max_threads(), room);
  return {reinterpret_cast<T*>(scratch.data()), scratch.data() + block, strips,
          static_cast<int>(most)};
}

}  // namespace

template <typename T>
Bytes blocked_gemm_scratch_bytes(const GemmShape& shape) {
  return {packed_block_bytes<T>(shape) + packed_rows_bytes<T>(shape)};
}

template <typename T>
void blocked_gemm(const GemmShape& shape, const GemmOperands<T>& operands, Scratch scratch) {
  const GemmShape s = with_leading_dimensions(shape);
  const Packed<T> packed = cut<T>(s, scratch);
  const bool started = s.bias || s.k == 0;
  if (started) start_rows(s, operands);
  for (std::int64_t column = 0; column < s.n; column += kBlockColumns<T>) {
    for (std::int64_t row = 0; row < s.k; row += kPanelDepth) {
      const Block block{row, std::min(kPanelDepth, s.k - row), column,
                        std::min(kBlockColumns<T>, s.n - column)};
      multiply_block(s, operands, block, packed, started || s.accumulate || row > 0);
    }
  }
}

template void blocked_gemm<float>(const GemmShape&, const GemmOperands<float>&, Scratch);
template void blocked_gemm<double>(const GemmShape&, const GemmOperands<double>&, Scratch);
template Bytes blocked_gemm_scratch_bytes<float>(const GemmShape&);
template Bytes blocked_gemm_scratch_bytes<double>(const GemmShape&);

}  // namespace zplan::exec::cpu
