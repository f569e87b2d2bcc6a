// Products of 16-bit operands. A thread takes one tile of C at a time and sums it in float over the
// whole depth: panels of B and rows of A are widened as they are packed, or packed as the tile
// registers of a CPU take them (amx.h). The sum of an element is one chain in the order of k and is
// rounded once, so results do not depend on the tiles. [Goto08]
#include <omp.h>

#include <algorithm>

#include "exec/cpu/kernels/amx.h"
#include "exec/cpu/kernels/gemm.h"
#include "exec/cpu/kernels/kernel_support.h"
#include "exec/cpu/kernels/tile_gemm.h"

namespace zplan::exec::cpu {
namespace {

// 96 + 256 + 96 KiB of floats, within the second-level cache. [derived]
constexpr std::int64_t kRows = 96;  // a multiple of every register tile height
constexpr std::int64_t kColumns = 256;
constexpr std::int64_t kDepth = 256;
constexpr std::int64_t kPanel = kTileColumns<float>;

// Operands as they are packed. float: A stored as it is, [rows, depth] or, of kTN, [depth, rows],
// and B in panels of [depth, kPanel]. Bf16: lines by 16, of each the tiles along the depth (amx.h).
template <typename T>
struct Tiles {
  T *a, *b;
  float* c;  // [rows, kColumns]
};

template <typename T>
Tiles<T> cut(Scratch scratch, std::int64_t rows) {
  ScratchCutter cutter(scratch);
  Tiles<T> tiles{};
  tiles.a = cutter.take<T>(rows * kDepth);
  tiles.b = cutter.take<T>(kColumns * kDepth);
  tiles.c = cutter.take<float>(rows * kColumns);
  return tiles;
}

// The tile of C, and the part of the sum being worked on.
struct Part {
  std::int64_t row, rows, column, columns, depth_begin, depth;
};

template <typename T>
void widen(float* to, const T* from, std::int64_t n) {
#pragma omp simd
  for (std::int64_t i = 0; i < n; ++i) to[i] = static_cast<float>(from[i]);
}

template <typename T>
void pack_a(const GemmShape& s, const T* a, const Part& p, float* to) {
  if (s.op == GemmOp::kTN) {
    for (std::int64_t k = 0; k < p.depth; ++k)
      widen(to + k * kRows, a + (p.depth_begin + k) * s.lda + p.row, p.rows);
  } else {
    for (std::int64_t i = 0; i < p.rows; ++i)
      widen(to + i * kDepth, a + (p.row + i) * s.lda + p.depth_begin, p.depth);
  }
}

template <typename T>
void pack_b(const GemmShape& s, const T* b, const Part& p, float* to) {
  for (std::int64_t first = 0; first < p.columns; first += kPanel, to += kPanel * p.depth) {
    const std::int64_t width = std::min(kPanel, p.columns - first), column = p.column + first;
    if (s.op == GemmOp::kNT) {
      for (std::int64_t j = 0; j < width; ++j) {
        const T* from = b + (column + j) * s.ldb + p.depth_begin;
        for (std::int64_t k = 0; k < p.depth; ++k) to[k * kPanel + j] = static_cast<float>(from[k]);
      }
    } else {
      for (std::int64_t k = 0; k < p.depth; ++k)
        widen(to + k * kPanel, b + (p.depth_begin + k) * s.ldb + column, width);
    }
  }
}

void multiply(const GemmShape& s, const Part& p, const Tiles<float>& tiles) {
  for (std::int64_t first = 0; first < p.columns; first += kPanel) {
    TileGemm<float> g{};
    g.m = p.rows;
    g.n = std::min(kPanel, p.columns - first);
    g.k = p.depth;
    g.a = tiles.a;
    g.a_row_stride = s.op == GemmOp::kTN ? 1 : kDepth;
    g.a_column_stride = s.op == GemmOp::kTN ? kRows : 1;
    g.b = tiles.b + first * p.depth;
    g.ldb = kPanel;
    g.c = tiles.c + first;
    g.ldc = kColumns;
    g.accumulate = p.depth_begin > 0;
    tile_gemm(g);
  }
}

// The same on tile registers, in the same scratch: twice the rows.
constexpr std::int64_t kAmxRows = 192;

void multiply_packed(const Part& p, const Tiles<Bf16>& packed) {
  const std::int64_t depth = amx_depth<Bf16>(p.depth);
  for (std::int64_t j = 0; j < p.columns; j += kAmxSquare) {
    for (std::int64_t i = 0; i < p.rows; i += kAmxSquare) {
      float* c = packed.c + i * kColumns + j;
      multiply_amx<Bf16>(packed.a + i * depth, packed.b + j * depth, kAmxLines * depth, p.depth,
                         p.depth_begin > 0 ? c : nullptr, kColumns, c, kColumns);
    }
  }
}

template <typename T, typename C>
void finish(const GemmShape& s, const GemmOperands<T, C>& x, const Part& p, const float* sums) {
  for (std::int64_t i = 0; i < p.rows; ++i) {
    const float* sum = sums + i * kColumns;
    C* c = x.c + (p.row + i) * s.ldc + p.column;
    const T* bias = s.bias ? x.bias + p.column : nullptr;
    for (std::int64_t j = 0; j < p.columns; ++j) {
      const float added = bias != nullptr ? sum[j] + static_cast<float>(bias[j]) : sum[j];
      c[j] = static_cast<C>(s.accumulate ? static_cast<float>(c[j]) + added : added);
    }
  }
}

template <typename T, typename C>
void one_tile(const GemmShape& s, const GemmOperands<T, C>& x, Part part, Scratch scratch) {
  const Tiles<float> tiles = cut<float>(scratch, kRows);
  if (s.k == 0) std::fill_n(tiles.c, kRows * kColumns, 0.0f);
  for (; part.depth_begin < s.k; part.depth_begin += kDepth) {
    part.depth = std::min(kDepth, s.k - part.depth_begin);
    pack_a(s, x.a, part, tiles.a);
    pack_b(s, x.b, part, tiles.b);
    multiply(s, part, tiles);
  }
  finish(s, x, part, tiles.c);
}

template <typename C>
void one_amx_tile(const GemmShape& s, const GemmOperands<Bf16, C>& x, Part part, Scratch scratch) {
  const Tiles<Bf16> packed = cut<Bf16>(scratch, kAmxRows);
  const AmxTiles registers;
  for (; part.depth_begin < s.k; part.depth_begin += kDepth) {
    part.depth = std::min(kDepth, s.k - part.depth_begin);
    pack_amx(amx_piece(x.a, s.lda, s.op != GemmOp::kTN, part.row, part.rows, part.depth_begin,
                       part.depth),
             false, packed.a);
    pack_amx(amx_piece(x.b, s.ldb, s.op == GemmOp::kNT, part.column, part.columns, part.depth_begin,
                       part.depth),
             true, packed.b);
    multiply_packed(part, packed);
  }
  finish(s, x, part, packed.c);
}

// Rows of a tile: tiles below one another are alike in size.
std::int64_t tile_rows(std::int64_t m, std::int64_t most, std::int64_t step) {
  return round_up(ceil_div(m, std::max<std::int64_t>(1, ceil_div(m, most))), step);
}

// Calls body(part, scratch) for tiles of so many rows, spread over the threads.
template <typename Body>
void for_tiles(const GemmShape& s, std::int64_t rows, Scratch scratch, const Body& body) {
  const auto per_thread = static_cast<std::size_t>(mixed_gemm_scratch_bytes().value);
  const auto room = static_cast<std::int64_t>(scratch.size() / per_thread);
  ZPLAN_ASSERT(room > 0);
  const std::int64_t across = ceil_div(s.n, kColumns), tiles = across * ceil_div(s.m, rows);
  const auto threads = static_cast<int>(
      std::max<std::int64_t>(1, std::min({tiles, room, std::int64_t{omp_get_max_threads()}})));
#pragma omp parallel for schedule(static) \
    num_threads(threads) if (s.m * s.n * s.k > kLeastParallelWork)
  for (std::int64_t i = 0; i < tiles; ++i) {
    const std::int64_t row = i / across * rows, column = i % across * kColumns;
    const auto begin = static_cast<std::size_t>(omp_get_thread_num()) * per_thread;
    body(Part{row, std::min(rows, s.m - row), column, std::min(kColumns, s.n - column), 0, 0},
         scratch.subspan(begin, per_thread));
  }
}

}  // namespace

Bytes mixed_gemm_scratch_bytes() {
  return {aligned_bytes<float>(kRows * kDepth) + aligned_bytes<float>(kColumns * kDepth) +
          aligned_bytes<float>(kRows * kColumns)};
}

template <typename T, typename C>
void mixed_gemm(const GemmShape& shape, const GemmOperands<T, C>& operands, Scratch scratch) {
  const GemmShape s = with_leading_dimensions(shape);
  if constexpr (std::is_same_v<T, Bf16>) {
    if (has_amx() && s.k > 0) {
      for_tiles(s, tile_rows(s.m, kAmxRows, kAmxSquare), scratch,
                [&](const Part& part, Scratch own) { one_amx_tile(s, operands, part, own); });
      return;
    }
  }
  for_tiles(s, kRows, scratch,
            [&](const Part& part, Scratch own) { one_tile(s, operands, part, own); });
}

#define ZPLAN_INSTANTIATE(T, C) \
  template void mixed_gemm<T, C>(const GemmShape&, const GemmOperands<T, C>&, Scratch);
ZPLAN_INSTANTIATE(Bf16, Bf16)
ZPLAN_INSTANTIATE(Bf16, float)
ZPLAN_INSTANTIATE(Fp16, Fp16)
ZPLAN_INSTANTIATE(Fp16, float)
#undef ZPLAN_INSTANTIATE

}  // namespace zplan::exec::cpu
