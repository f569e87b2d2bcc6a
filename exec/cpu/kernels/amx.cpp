#include "exec/cpu/kernels/amx.h"

#include "exec/cpu/kernels/pack.h"
#include "planner/core/error.h"

#if defined(__AMX_BF16__) && defined(__AVX512F__) && defined(__linux__)

#include <immintrin.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

namespace zplan::exec::cpu {
namespace {

// The tile intrinsics do not tell the compiler that they touch memory.
void order_memory() { asm volatile("" ::: "memory"); }

// [IntelAMX]
struct alignas(64) TileConfiguration {
  std::uint8_t palette = 1, start_row = 0, reserved[14] = {};
  std::uint16_t row_bytes[16] = {};
  std::uint8_t rows[16] = {};
};

// A pair of elements, moved as one.
using Pair = std::uint32_t;
constexpr std::int64_t kPairs = kAmxDepth / 2;

// tile[p, line] = the elements 2 p and 2 p + 1 of a line, of rows of 16 lines.
void pair_rows(const Bf16* from, std::int64_t stride, Pair* tile) {
  typedef std::uint16_t Row __attribute__((vector_size(32), aligned(2), may_alias));
  const auto row = [&](std::int64_t i) {
    return __builtin_convertvector(*reinterpret_cast<const Row*>(from + i * stride),
                                   Lanes<Pair>::Type);
  };
  for (std::int64_t p = 0; p < kPairs; ++p, tile += kAmxLines) {
    const auto second = row(2 * p + 1) << 16;
    *reinterpret_cast<Lanes<Pair>::InMemory*>(tile) = row(2 * p) | second;
  }
}

void copy_lines(const Bf16* from, std::int64_t stride, Pair* tile) {
  for (std::int64_t i = 0; i < kAmxLines; ++i)
    std::memcpy(tile + i * kPairs, from + i * stride, kAmxDepth * sizeof(Bf16));
}

// Of a whole piece: lines of pairs are a tile of A, pairs of lines one of B.
void pack_tile(const AmxPiece& x, bool of_b, Pair* tile) {
  alignas(64) Pair room[kPairs * kAmxLines];
  const bool turns = x.is_along_depth == of_b;
  Pair* const to = turns ? room : tile;
  if (x.is_along_depth) {
    copy_lines(x.from, x.stride, to);
  } else {
    pair_rows(x.from, x.stride, to);
  }
  if (turns) turn_square(room, kAmxLines, kAmxLines, tile, kAmxLines);
}

// A piece filled up with zeros.
AmxPiece filled(const AmxPiece& x, Bf16* room) {
  const std::int64_t rows = x.is_along_depth ? x.lines : x.depth;
  const std::int64_t columns = x.is_along_depth ? x.depth : x.lines;
  const std::int64_t stride = x.is_along_depth ? kAmxDepth : kAmxLines;
  std::fill_n(room, kAmxTile, Bf16(0.0F));
  for (std::int64_t i = 0; i < rows; ++i)
    std::copy_n(x.from + i * x.stride, columns, room + i * stride);
  return {room, stride, kAmxLines, kAmxDepth, x.is_along_depth};
}

}  // namespace

bool has_amx() {
  constexpr long kRequestPermission = 0x1023, kTileData = 18;  // Linux: arch/x86/xstate.rst
  static const bool has = syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
  return has;
}

AmxTiles::AmxTiles() {
  TileConfiguration all;
  std::fill_n(all.row_bytes, 8, std::uint16_t{64});
  std::fill_n(all.rows, 8, std::uint8_t{16});
  order_memory();
  _tile_loadconfig(&all);
}

AmxTiles::~AmxTiles() { _tile_release(); }

void pack_amx(const AmxPiece& piece, bool of_b, Bf16* tile) {
  alignas(64) Bf16 room[kAmxTile];
  const bool is_whole = piece.depth == kAmxDepth && piece.lines == kAmxLines;
  pack_tile(is_whole ? piece : filled(piece, room), of_b, reinterpret_cast<Pair*>(tile));
}

void multiply_amx(const Bf16* a, std::int64_t a_apart, const Bf16* b, std::int64_t b_apart,
                  std::int64_t tiles, float* c, std::int64_t ldc, bool accumulate) {
  constexpr std::int64_t kLine = 64;
  const std::int64_t c_line = ldc * static_cast<std::int64_t>(sizeof(float));
  float* below = c + kAmxLines * ldc;
  order_memory();
  if (accumulate) {
    _tile_loadd(0, c, c_line);
    _tile_loadd(1, c + kAmxLines, c_line);
    _tile_loadd(2, below, c_line);
    _tile_loadd(3, below + kAmxLines, c_line);
  } else {
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
  }
  for (std::int64_t p = 0; p < tiles; ++p, a += kAmxTile, b += kAmxTile) {
    _tile_loadd(4, a, kLine);
    _tile_loadd(6, b, kLine);
    _tile_dpbf16ps(0, 4, 6);
    _tile_loadd(7, b + b_apart, kLine);
    _tile_dpbf16ps(1, 4, 7);
    _tile_loadd(5, a + a_apart, kLine);
    _tile_dpbf16ps(2, 5, 6);
    _tile_dpbf16ps(3, 5, 7);
  }
  _tile_stored(0, c, c_line);
  _tile_stored(1, c + kAmxLines, c_line);
  _tile_stored(2, below, c_line);
  _tile_stored(3, below + kAmxLines, c_line);
  order_memory();
}

}  // namespace zplan::exec::cpu

#else

namespace zplan::exec::cpu {

bool has_amx() { return false; }
AmxTiles::AmxTiles() { ZPLAN_ASSERT(false); }
AmxTiles::~AmxTiles() = default;
void pack_amx(const AmxPiece&, bool, Bf16*) { ZPLAN_ASSERT(false); }
void multiply_amx(const Bf16*, std::int64_t, const Bf16*, std::int64_t, std::int64_t, float*,
                  std::int64_t, bool) {
  ZPLAN_ASSERT(false);
}

}  // namespace zplan::exec::cpu

#endif
