// Products of floats on tile registers. A thread takes a tile of C at a time. Of a block along k it
// packs the columns of B, which stay in its second-level cache, then some rows of A at a time, and
// multiplies these by a panel of B after the other. The sum of an element is that of its blocks in
// order, so results do not depend on the tiles. [Goto08]
#include <omp.h>

#include <algorithm>

#include "exec/cpu/kernels/amx.h"
#include "exec/cpu/kernels/gemm.h"
#include "exec/cpu/kernels/kernel_support.h"

namespace zplan::exec::cpu {
namespace {

constexpr std::int64_t kColumns = 512;  // of B, 768 KiB packed
constexpr std::int64_t kRows = 96;      // of A, 144 KiB packed
constexpr std::int64_t kDepth = 256;    // of a block
constexpr std::int64_t kPart = 128;     // of it, that leaves a panel of B in the first-level cache
constexpr std::int64_t kSums = kColumns + kAmxLines;  // floats from row to row, in other sets

struct AmxScratch {
  Bf16 *a, *b;
  float* sums;  // [kRows, kColumns], rows kSums apart
};

std::int64_t per_thread_bytes() {
  const std::int64_t packed = amx_depth<float>(kDepth);
  return aligned_bytes<Bf16>(kRows * packed) + aligned_bytes<Bf16>(kColumns * packed) +
         aligned_bytes<float>(kRows * kSums);
}

AmxScratch cut(Scratch scratch) {
  const std::int64_t packed = amx_depth<float>(kDepth);
  ScratchCutter cutter(scratch);
  AmxScratch cuts{};
  cuts.a = cutter.take<Bf16>(kRows * packed);
  cuts.b = cutter.take<Bf16>(kColumns * packed);
  cuts.sums = cutter.take<float>(kRows * kSums);
  return cuts;
}

// Rows and columns of a tile, and from where along k.
struct AmxTile {
  std::int64_t row, rows, column, columns, depth_begin, depth;
};

// C of some rows gains its sums; the first also the bias.
void add_sums(const GemmShape& s, const GemmOperands<float>& x, const AmxTile& t,
              const float* sums) {
  const bool begins = t.depth_begin == 0, keeps = s.accumulate || !begins;
  const float* bias = begins && s.bias ? x.bias + t.column : nullptr;
  for (std::int64_t i = 0; i < t.rows; ++i, sums += kSums) {
    float* c = x.c + (t.row + i) * s.ldc + t.column;
    for (std::int64_t j = 0; j < t.columns; ++j) {
      const float added = bias != nullptr ? sums[j] + bias[j] : sums[j];
      c[j] = keeps ? c[j] + added : added;
    }
  }
}

void multiply_panel(const AmxTile& t, const Bf16* rows, const Bf16* panel, float* sums) {
  const std::int64_t line = amx_depth<float>(t.depth);
  for (std::int64_t k = 0; k < t.depth; k += kPart) {
    const std::int64_t begin = k * kAmxTerms<float> * kAmxLines;
    for (std::int64_t i = 0; i < t.rows; i += kAmxSquare)
      multiply_amx<float>(rows + i * line + begin, panel + begin, kAmxLines * line,
                          std::min(kPart, t.depth - k), sums + i * kSums, kSums, k > 0);
  }
}

void multiply_tile(const GemmShape& s, const GemmOperands<float>& x, AmxTile t, Scratch scratch) {
  const AmxScratch packed = cut(scratch);
  const AmxTiles registers;
  for (; t.depth_begin < s.k; t.depth_begin += kDepth) {
    t.depth = std::min(kDepth, s.k - t.depth_begin);
    pack_amx(
        amx_piece(x.b, s.ldb, s.op == GemmOp::kNT, t.column, t.columns, t.depth_begin, t.depth),
        true, packed.b);
    for (std::int64_t row = 0; row < t.rows; row += kRows) {
      AmxTile part = t;
      part.row += row;
      part.rows = std::min(kRows, t.rows - row);
      pack_amx(
          amx_piece(x.a, s.lda, s.op != GemmOp::kTN, part.row, part.rows, t.depth_begin, t.depth),
          false, packed.a);
      for (std::int64_t j = 0; j < t.columns; j += kAmxSquare)
        multiply_panel(part, packed.a, packed.b + j * amx_depth<float>(t.depth), packed.sums + j);
      add_sums(s, x, part, packed.sums);
    }
  }
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

Bytes amx_gemm_scratch_bytes() { return {per_thread_bytes()}; }

// As many parts of the rows as give each thread as many tiles as the others.
void amx_gemm(const GemmShape& shape, const GemmOperands<float>& operands, Scratch scratch) {
  const GemmShape s = with_leading_dimensions(shape);
  const std::int64_t room = static_cast<std::int64_t>(scratch.size()) / per_thread_bytes();
  ZPLAN_ASSERT(room > 0);
  const bool is_small = s.m * s.n * s.k <= kLeastParallelWork;
  const std::int64_t threads = is_small ? 1 : std::min<std::int64_t>(omp_get_max_threads(), room);
  const std::int64_t across = ceil_div(s.n, kColumns);
  std::int64_t down = 1;
  while (across * down % threads != 0 && across * down < 8 * threads && down * kRows < s.m) ++down;
  const std::int64_t rows = share(s.m, down), columns = share(s.n, across);
  const std::int64_t tiles = ceil_div(s.m, rows) * across;
#pragma omp parallel for schedule(static) num_threads(static_cast<int>(threads)) if (threads > 1)
  for (std::int64_t i = 0; i < tiles; ++i) {
    const std::int64_t row = i / across * rows, column = i % across * columns;
    const auto begin = static_cast<std::size_t>(omp_get_thread_num() * per_thread_bytes());
    multiply_tile(s, operands,
                  {row, std::min(rows, s.m - row), column, std::min(columns, s.n - column), 0, 0},
                  scratch.subspan(begin, static_cast<std::size_t>(per_thread_bytes())));
  }
}

}  // namespace zplan::exec::cpu
