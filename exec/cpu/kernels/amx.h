// Products of bf16 on the tile registers of a CPU that has them (AMX-BF16): sums in float, 1,024
// flop a cycle. Internal to exec/cpu/kernels.
// A tile of an operand is 16 x 32 elements, 1 KiB: of A 16 rows of 16 pairs along k; of B 16 pairs
// of rows, each of 16 columns, the two of a pair side by side. Tiles along k stand one behind the
// other. [IntelAMX]
#pragma once

#include <cstdint>

#include "exec/cpu/kernels/half.h"

namespace zplan::exec::cpu {

inline constexpr std::int64_t kAmxLines = 16;  // rows of A or columns of B in a tile
inline constexpr std::int64_t kAmxDepth = 32;  // elements along k in a tile
inline constexpr std::int64_t kAmxTile = kAmxLines * kAmxDepth;

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
struct AmxPiece {
  const Bf16* from;
  std::int64_t stride, lines, depth;
  bool is_along_depth;
};

// A piece of at most a tile, as a tile of A, or of B; what is not there is 0.
void pack_amx(const AmxPiece& piece, bool of_b, Bf16* tile);

// C[32, 32] (+)= A B over `tiles` tiles along k; a and b are the first of two rows of tiles that
// are so many elements apart. C has rows of ldc floats.
void multiply_amx(const Bf16* a, std::int64_t a_apart, const Bf16* b, std::int64_t b_apart,
                  std::int64_t tiles, float* c, std::int64_t ldc, bool accumulate);

}  // namespace zplan::exec::cpu
