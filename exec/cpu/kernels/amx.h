// Products on the tile registers of a CPU that has them (AMX-BF16): of bf16, and of floats taken
// apart into three bf16 each. Sums are in float. Internal to exec/cpu/kernels.
// A tile of an operand is 16 x 32 elements, 1 KiB: of A 16 rows of 16 pairs along k; of B 16 pairs
// of rows, each of 16 columns, the two of a pair side by side. Tiles along k stand one behind the
// other; of floats the three terms of a tile do. [IntelAMX]
//
// A float is the sum of three bf16 to the bit while its smallest term is a normal number, from
// 2^-103 on, as its last bit is 2^-23 of it: each takes 8 of its 24 bits. Of the nine products of
// terms the six largest are summed; the others are less than 2^-25 of the whole, half a unit in the
// last place. [Henry19, section III] Smaller numbers lose low bits, those below 2^-126 are 0;
// infinity and what rounds to it in bf16 (3.39e38) become NaN or infinity.
#pragma once

#include <cstdint>
#include <type_traits>

#include "exec/cpu/kernels/half.h"

namespace zplan::exec::cpu {

inline constexpr std::int64_t kAmxLines = 16;  // rows of A or columns of B in a tile
inline constexpr std::int64_t kAmxDepth = 32;  // elements along k in a tile
inline constexpr std::int64_t kAmxTile = kAmxLines * kAmxDepth;
inline constexpr std::int64_t kAmxSquare = 2 * kAmxLines;  // of C, what is worked on at a time

// Tiles of bf16 that stand for one of T.
template <typename T>
inline constexpr std::int64_t kAmxTerms = std::is_same_v<T, float> ? 3 : 1;

// Whether the build and the machine have it and the system lets this process use it.
bool has_amx();

// A thread's tile registers, while it lives; only where has_amx().
class AmxTiles {
 public:
  AmxTiles();
  ~AmxTiles();
  AmxTiles(const AmxTiles&) = delete;
  AmxTiles& operator=(const AmxTiles&) = delete;
};

// A piece of an operand: `lines` rows of A or columns of B and `depth` elements of each. Element
// (line, p) stands at from[line * stride + p] or, along lines, from[p * stride + line].
template <typename T>
struct AmxPiece {
  const T* from;
  std::int64_t stride, lines, depth;
  bool is_along_depth;
};

// Elements [first, first + depth) of the lines from `line` on of a matrix.
template <typename T>
AmxPiece<T> amx_piece(const T* matrix, std::int64_t stride, bool is_along_depth, std::int64_t line,
                      std::int64_t lines, std::int64_t first, std::int64_t depth) {
  const T* from = matrix + (is_along_depth ? line * stride + first : first * stride + line);
  return {from, stride, lines, depth, is_along_depth};
}

// Packed elements of a line of so many elements.
template <typename T>
constexpr std::int64_t amx_depth(std::int64_t depth) {
  return (depth + kAmxDepth - 1) / kAmxDepth * kAmxDepth * kAmxTerms<T>;
}

// The tiles of a piece, those of 16 lines amx_depth * 16 behind the last ones; lines are filled up
// to whole squares. What is not there is 0.
template <typename T>
void pack_amx(const AmxPiece<T>& piece, bool of_b, Bf16* tiles);

// C[32, 32] = start + A B over a depth; a and b are the first tiles of 16 lines, those of the next
// 16 are so many elements apart. C has rows of ldc floats; start, C itself or not, rows of
// start_line floats, of which 0 repeats one row, or is null for zeros.
template <typename T>
void multiply_amx(const Bf16* a, const Bf16* b, std::int64_t apart, std::int64_t depth,
                  const float* start, std::int64_t start_line, float* c, std::int64_t ldc);

}  // namespace zplan::exec::cpu
