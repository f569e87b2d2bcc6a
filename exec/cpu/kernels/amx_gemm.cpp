// Products of floats on tile registers. A thread takes a tile of C at a time. Of a block along k it
// packs the columns of B, which stay in its second-level cache, then some rows of A at a time, and
// multiplies these by a panel of B after the other. The sum of an element is one chain in the order
// of k, which waits in C between blocks, so results do not depend on the tiles. [Goto08]
#include <omp.h>

#include <algorithm>
#include <numeric>

#include "exec/cpu/kernels/amx.h"
#include "exec/cpu/kernels/gemm.h"
#include "exec/cpu/kernels/kernel_support.h"

namespace zplan::exec::cpu {
namespace {

constexpr std::int64_t kDepth = 384;                 // of a block, at most
constexpr std::int64_t kColumnBlock = 512 * kDepth;  // elements of B, 1.1 MiB packed
constexpr std::int64_t kRowBlock = 96;               // rows of A, 216 KiB packed
constexpr std::int64_t kLeastLines = 2 * kAmxSquare;

std::int64_t bytes_of_lines(std::int64_t lines, std::int64_t depth) {
  return lines * amx_depth<float>(depth) * static_cast<std::int64_t>(sizeof(Bf16));
}

// What a thread packs at a time: rows of A and columns of B, whole squares, of a depth.
struct AmxBlock {
  std::int64_t rows, columns, depth;
};

// Blocks along k are alike in size. Where many threads share the scratch, they have fewer lines.
AmxBlock block_of(std::int64_t k, std::int64_t bytes) {
  const std::int64_t depth = round_up(ceil_div(k, ceil_div(k, kDepth)), kAmxDepth);
  const auto squares = [](std::int64_t lines) { return lines / kAmxSquare * kAmxSquare; };
  const std::int64_t lines = bytes / bytes_of_lines(1, depth);
  const std::int64_t rows = std::clamp(squares(lines / 4), kAmxSquare, kRowBlock);
  return {rows, squares(std::min(kColumnBlock / depth, lines - rows)), depth};
}

// C is cut into so many parts: across its columns, and down its rows.
struct AmxParts {
  std::int64_t across, down;
};

// As many for each thread, of those that take the least packing: the rows of A are packed for each
// part across, the columns of B for each part down.
AmxParts parts_of(const GemmShape& s, std::int64_t columns, std::int64_t threads) {
  const std::int64_t least = ceil_div(s.n, columns);
  AmxParts best{least, 1};
  std::int64_t least_packed = 0;
  for (std::int64_t across = least; across < least + threads; ++across) {
    const std::int64_t down = threads / std::gcd(threads, across);
    if (across * kAmxSquare > round_up(s.n, kAmxSquare)) break;
    if (down * kAmxSquare > round_up(s.m, kAmxSquare)) continue;
    const std::int64_t packed = across * s.m + down * s.n;
    if (least_packed != 0 && packed >= least_packed) continue;
    best = {across, down};
    least_packed = packed;
  }
  return best;
}

// Rows and columns of a tile, and from where along k.
struct AmxTile {
  std::int64_t row, rows, column, columns, depth_begin, depth;
};

// What sums begin with: rows of floats so far apart, or nothing.
struct AmxStart {
  const float* from;
  std::int64_t line;
};

// A square of which C has only some rows and columns, through room of its own.
void multiply_edge(const AmxTile& t, const Bf16* a, const Bf16* b, const AmxStart& start, float* c,
                   std::int64_t ldc) {
  alignas(64) float room[kAmxSquare * kAmxSquare] = {};
  for (std::int64_t i = 0; start.from != nullptr && i < t.rows; ++i)
    std::copy_n(start.from + i * start.line, t.columns, room + i * kAmxSquare);
  multiply_amx<float>(a, b, kAmxLines * amx_depth<float>(t.depth), t.depth, room, kAmxSquare, room,
                      kAmxSquare);
  for (std::int64_t i = 0; i < t.rows; ++i)
    std::copy_n(room + i * kAmxSquare, t.columns, c + i * ldc);
}

void multiply_square(const GemmShape& s, const GemmOperands<float>& x, AmxTile t, const Bf16* a,
                     const Bf16* b) {
  float* c = x.c + t.row * s.ldc + t.column;
  AmxStart start{nullptr, 0};
  if (s.accumulate || t.depth_begin > 0) {
    start = {c, s.ldc};
  } else if (s.bias) {
    start = {x.bias + t.column, 0};
  }
  t.rows = std::min(kAmxSquare, t.rows);
  t.columns = std::min(kAmxSquare, t.columns);
  if (t.rows < kAmxSquare || t.columns < kAmxSquare) return multiply_edge(t, a, b, start, c, s.ldc);
  multiply_amx<float>(a, b, kAmxLines * amx_depth<float>(t.depth), t.depth, start.from, start.line,
                      c, s.ldc);
}

void multiply_packed(const GemmShape& s, const GemmOperands<float>& x, const AmxTile& t,
                     const Bf16* a, const Bf16* b) {
  const std::int64_t line = amx_depth<float>(t.depth);
  for (std::int64_t j = 0; j < t.columns; j += kAmxSquare)
    for (std::int64_t i = 0; i < t.rows; i += kAmxSquare)
      multiply_square(s, x,
                      {t.row + i, t.rows - i, t.column + j, t.columns - j, t.depth_begin, t.depth},
                      a + i * line, b + j * line);
}

void multiply_tile(const GemmShape& s, const GemmOperands<float>& x, AmxTile t,
                   const AmxBlock& block, Scratch scratch) {
  ScratchCutter cutter(scratch);
  Bf16* const a = cutter.take<Bf16>(block.rows * amx_depth<float>(block.depth));
  Bf16* const b = cutter.take<Bf16>(block.columns * amx_depth<float>(block.depth));
  const AmxTiles registers;
  for (; t.depth_begin < s.k; t.depth_begin += block.depth) {
    t.depth = std::min(block.depth, s.k - t.depth_begin);
    pack_amx(
        amx_piece(x.b, s.ldb, s.op == GemmOp::kNT, t.column, t.columns, t.depth_begin, t.depth),
        true, b);
    for (std::int64_t row = 0; row < t.rows; row += block.rows) {
      AmxTile part = t;
      part.row += row;
      part.rows = std::min(block.rows, t.rows - row);
      pack_amx(
          amx_piece(x.a, s.lda, s.op != GemmOp::kTN, part.row, part.rows, t.depth_begin, t.depth),
          false, a);
      multiply_packed(s, x, part, a, b);
    }
  }
}

void add_bias(const GemmShape& s, const GemmOperands<float>& x) {
  for (std::int64_t i = 0; i < s.m; ++i)
    for (std::int64_t j = 0; j < s.n; ++j) x.c[i * s.ldc + j] += x.bias[j];
}

// Rows or columns of a tile, alike in size.
std::int64_t share(std::int64_t all, std::int64_t parts) {
  return round_up(ceil_div(all, parts), kAmxSquare);
}

}  // namespace

bool amx_multiplies(const GemmShape& s) {
  constexpr std::int64_t kLeast = 32;  // [assumed] of smaller ones most is padding
  return has_amx() && s.m >= kLeast && s.n >= kLeast && s.k >= kLeast;
}

Bytes amx_gemm_scratch_bytes() { return {bytes_of_lines(kLeastLines, kDepth)}; }

void amx_gemm(const GemmShape& shape, const GemmOperands<float>& operands, Scratch scratch) {
  const GemmShape s = with_leading_dimensions(shape);
  const auto bytes = static_cast<std::int64_t>(scratch.size());
  const std::int64_t room = bytes / amx_gemm_scratch_bytes().value;
  ZPLAN_ASSERT(room > 0);
  const bool is_small = s.m * s.n * s.k <= kLeastParallelWork;
  const std::int64_t threads = is_small ? 1 : std::min<std::int64_t>(omp_get_max_threads(), room);
  const std::int64_t per_thread = bytes / threads / 64 * 64;
  const AmxBlock block = block_of(s.k, per_thread);
  const AmxParts parts = parts_of(s, block.columns, threads);
  if (s.accumulate && s.bias) add_bias(s, operands);
  const std::int64_t rows = share(s.m, parts.down), columns = share(s.n, parts.across);
  const std::int64_t across = ceil_div(s.n, columns), tiles = ceil_div(s.m, rows) * across;
#pragma omp parallel for schedule(static) num_threads(static_cast<int>(threads)) if (threads > 1)
  for (std::int64_t i = 0; i < tiles; ++i) {
    const std::int64_t row = i / across * rows, column = i % across * columns;
    multiply_tile(s, operands,
                  {row, std::min(rows, s.m - row), column, std::min(columns, s.n - column), 0, 0},
                  block,
                  scratch.subspan(static_cast<std::size_t>(omp_get_thread_num() * per_thread),
                                  static_cast<std::size_t>(per_thread)));
  }
}

}  // namespace zplan::exec::cpu
