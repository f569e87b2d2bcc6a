#include "exec/cpu/kernels/amx.h"

#include "exec/cpu/kernels/pack.h"
#include "planner/core/error.h"

#if defined(__AMX_BF16__) && defined(__AVX512BF16__) && defined(__AVX512BW__) && defined(__linux__)

#include <immintrin.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>

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
constexpr std::int64_t kTilePairs = kAmxTile / 2;

// 16 and 32 elements of bf16.
typedef std::uint16_t Row __attribute__((vector_size(32)));
typedef std::uint16_t RowInMemory __attribute__((vector_size(32), aligned(2), may_alias));
typedef std::uint16_t Rows __attribute__((vector_size(64)));
typedef std::uint16_t RowsInMemory __attribute__((vector_size(64), aligned(2), may_alias));

using Positions = std::make_integer_sequence<int, kAmxDepth>;

using Words = Lanes<Pair>::Type;
using Floats = Lanes<float>::Type;

// 32 elements, as the terms of T.
template <typename T>
struct Split {
  Rows term[kAmxTerms<T>];
};

// The two rows in memory order, or their elements in turn.
enum class Order { kOneByOne, kInTurn };

template <int... i>
Rows joined(Row x, Row y, std::integer_sequence<int, i...>) {
  return __builtin_shufflevector(x, y, i...);
}

template <Order order, int... i>
Rows reordered(Rows x, std::integer_sequence<int, i...>) {
  if constexpr (order == Order::kOneByOne) return x;
  return __builtin_shufflevector(x, x, (i / 2 + i % 2 * kAmxLines)...);
}

// The upper halves of two rows of 16 words.
template <Order order, int... i>
Rows upper(Words x, Words y, std::integer_sequence<int, i...>) {
  const auto x_halves = reinterpret_cast<Rows>(x), y_halves = reinterpret_cast<Rows>(y);
  if constexpr (order == Order::kOneByOne)
    return __builtin_shufflevector(x_halves, y_halves, (2 * i + 1)...);
  return __builtin_shufflevector(x_halves, y_halves, (i / 2 * 2 + 1 + i % 2 * kAmxDepth)...);
}

// Two rows of 16 floats: each term is the nearest bf16 to what is left, its bits rounded as an
// integer but for the last ones, which keep what is not a number.
template <Order order>
Split<float> split(Floats x, Floats y) {
  Split<float> parts;
  for (int t = 0; t < 2; ++t) {
    const Words x_rounded = reinterpret_cast<Words>(x) + 0x8000U;
    const Words y_rounded = reinterpret_cast<Words>(y) + 0x8000U;
    parts.term[t] = upper<order>(x_rounded, y_rounded, Positions{});
    x -= reinterpret_cast<Floats>(x_rounded & 0xffff0000U);
    y -= reinterpret_cast<Floats>(y_rounded & 0xffff0000U);
  }
  parts.term[2] = reordered<order>(reinterpret_cast<Rows>(_mm512_cvtne2ps_pbh(y, x)), Positions{});
  return parts;
}

// 16 elements of each of two rows.
template <Order order>
Split<float> two_rows(const float* first, const float* second) {
  using InMemory = Lanes<float>::InMemory;
  return split<order>(*reinterpret_cast<const InMemory*>(first),
                      *reinterpret_cast<const InMemory*>(second));
}
template <Order order>
Split<Bf16> two_rows(const Bf16* first, const Bf16* second) {
  const Rows rows = joined(*reinterpret_cast<const RowInMemory*>(first),
                           *reinterpret_cast<const RowInMemory*>(second), Positions{});
  return {{reordered<order>(rows, Positions{})}};
}

// tile[line, p] = the elements 2 p and 2 p + 1 of a line.
template <typename T>
void copy_lines(const AmxPiece<T>& x, Pair* tile) {
  for (std::int64_t i = 0; i < kAmxLines; ++i, tile += kPairs) {
    const T* from = x.from + i * x.stride;
    const Split<T> line = two_rows<Order::kOneByOne>(from, from + kAmxLines);
    for (std::int64_t t = 0; t < kAmxTerms<T>; ++t)
      *reinterpret_cast<RowsInMemory*>(tile + t * kTilePairs) = line.term[t];
  }
}

// tile[p, line] = the same, of rows of 16 lines.
template <typename T>
void pair_rows(const AmxPiece<T>& x, Pair* tile) {
  for (std::int64_t p = 0; p < kPairs; ++p, tile += kAmxLines) {
    const T* first = x.from + 2 * p * x.stride;
    const Split<T> rows = two_rows<Order::kInTurn>(first, first + x.stride);
    for (std::int64_t t = 0; t < kAmxTerms<T>; ++t)
      *reinterpret_cast<RowsInMemory*>(tile + t * kTilePairs) = rows.term[t];
  }
}

// Of a whole tile: lines of pairs are a tile of A, pairs of lines one of B.
template <typename T>
void pack_tile(const AmxPiece<T>& x, bool of_b, Pair* tile) {
  alignas(64) Pair room[kTilePairs * kAmxTerms<T>];
  const bool turns = x.is_along_depth == of_b;
  Pair* const to = turns ? room : tile;
  if (x.is_along_depth) {
    copy_lines(x, to);
  } else {
    pair_rows(x, to);
  }
  for (std::int64_t t = 0; turns && t < kAmxTerms<T>; ++t)
    turn_square(room + t * kTilePairs, kAmxLines, kAmxLines, tile + t * kTilePairs, kAmxLines);
}

// Up to a tile of a piece, filled up with zeros.
template <typename T>
void pack_part(const AmxPiece<T>& x, bool of_b, Pair* tile) {
  if (x.depth == kAmxDepth && x.lines == kAmxLines) return pack_tile(x, of_b, tile);
  T room[kAmxTile] = {};
  const std::int64_t rows = x.is_along_depth ? x.lines : x.depth;
  const std::int64_t columns = x.is_along_depth ? x.depth : x.lines;
  const std::int64_t stride = x.is_along_depth ? kAmxDepth : kAmxLines;
  for (std::int64_t i = 0; i < rows; ++i)
    std::copy_n(x.from + i * x.stride, columns, room + i * stride);
  pack_tile<T>({room, stride, kAmxLines, kAmxDepth, x.is_along_depth}, of_b, tile);
}

// The registers of 2 x 2 tiles of C, two of A and two of B.
constexpr std::int64_t kLine = 64;  // bytes from row to row of a packed tile

void load_a(const Bf16* tiles, std::int64_t apart) {
  _tile_loadd(4, tiles, kLine);
  _tile_loadd(5, tiles + apart, kLine);
}

void load_b(const Bf16* tiles, std::int64_t apart) {
  _tile_loadd(6, tiles, kLine);
  _tile_loadd(7, tiles + apart, kLine);
}

void multiply_loaded() {
  _tile_dpbf16ps(0, 4, 6);
  _tile_dpbf16ps(1, 4, 7);
  _tile_dpbf16ps(2, 5, 6);
  _tile_dpbf16ps(3, 5, 7);
}

// C += A B of one tile along k each, `apart` from line to line.
template <typename T>
void multiply_tiles(const Bf16* a, const Bf16* b, std::int64_t apart) {
  load_a(a, apart);
  load_b(b, apart);
  multiply_loaded();
}

// The six largest products of terms, in an order in which neighbours share one of them.
template <>
void multiply_tiles<float>(const Bf16* a, const Bf16* b, std::int64_t apart) {
  constexpr std::int64_t kMiddle = kAmxTile, kLow = 2 * kAmxTile;
  load_a(a + kLow, apart);
  load_b(b, apart);
  multiply_loaded();
  load_a(a + kMiddle, apart);
  multiply_loaded();
  load_b(b + kMiddle, apart);
  multiply_loaded();
  load_a(a, apart);
  multiply_loaded();
  load_b(b + kLow, apart);
  multiply_loaded();
  load_b(b, apart);
  multiply_loaded();
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

template <typename T>
void pack_amx(const AmxPiece<T>& piece, bool of_b, Bf16* tiles) {
  const std::int64_t lines = round_up(piece.lines, kAmxSquare), apart = amx_depth<T>(piece.depth);
  const auto pack = [&](std::int64_t line, std::int64_t p) {
    pack_part(amx_piece(piece.from, piece.stride, piece.is_along_depth, line,
                        std::clamp<std::int64_t>(piece.lines - line, 0, kAmxLines), p,
                        std::min(kAmxDepth, piece.depth - p)),
              of_b, reinterpret_cast<Pair*>(tiles + line * apart + p * kAmxTerms<T> * kAmxLines));
  };
  if (piece.is_along_depth) {
    for (std::int64_t line = 0; line < lines; line += kAmxLines)
      for (std::int64_t p = 0; p < piece.depth; p += kAmxDepth) pack(line, p);
  } else {
    for (std::int64_t p = 0; p < piece.depth; p += kAmxDepth)
      for (std::int64_t line = 0; line < lines; line += kAmxLines) pack(line, p);
  }
}

template <typename T>
void multiply_amx(const Bf16* a, const Bf16* b, std::int64_t apart, std::int64_t depth,
                  const float* start, std::int64_t start_line, float* c, std::int64_t ldc) {
  constexpr std::int64_t kStep = kAmxTile * kAmxTerms<T>;
  const auto bytes = [](std::int64_t floats) {
    return floats * static_cast<std::int64_t>(sizeof(float));
  };
  float* below = c + kAmxLines * ldc;
  order_memory();
  if (start != nullptr) {
    const float* start_below = start + kAmxLines * start_line;
    _tile_loadd(0, start, bytes(start_line));
    _tile_loadd(1, start + kAmxLines, bytes(start_line));
    _tile_loadd(2, start_below, bytes(start_line));
    _tile_loadd(3, start_below + kAmxLines, bytes(start_line));
  } else {
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
  }
  for (std::int64_t p = 0; p < depth; p += kAmxDepth, a += kStep, b += kStep)
    multiply_tiles<T>(a, b, apart);
  _tile_stored(0, c, bytes(ldc));
  _tile_stored(1, c + kAmxLines, bytes(ldc));
  _tile_stored(2, below, bytes(ldc));
  _tile_stored(3, below + kAmxLines, bytes(ldc));
  order_memory();
}

}  // namespace zplan::exec::cpu

#else

namespace zplan::exec::cpu {

bool has_amx() { return false; }
AmxTiles::AmxTiles() { ZPLAN_ASSERT(false); }
AmxTiles::~AmxTiles() = default;

template <typename T>
void pack_amx(const AmxPiece<T>&, bool, Bf16*) {
  ZPLAN_ASSERT(false);
}

template <typename T>
void multiply_amx(const Bf16*, const Bf16*, std::int64_t, std::int64_t, const float*, std::int64_t,
                  float*, std::int64_t) {
  ZPLAN_ASSERT(false);
}

}  // namespace zplan::exec::cpu

#endif

namespace zplan::exec::cpu {

#define ZPLAN_INSTANTIATE(T)                                                          \
  template void pack_amx<T>(const AmxPiece<T>&, bool, Bf16*);                         \
  template void multiply_amx<T>(const Bf16*, const Bf16*, std::int64_t, std::int64_t, \
                                const float*, std::int64_t, float*, std::int64_t);
ZPLAN_INSTANTIATE(Bf16)
ZPLAN_INSTANTIATE(float)
#undef ZPLAN_INSTANTIATE

}  // namespace zplan::exec::cpu
