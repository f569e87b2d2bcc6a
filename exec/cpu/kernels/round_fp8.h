// Rounding to e4m3 [Micikevicius22 Table 1] in blocks that have a scale each.
#pragma once

#include <cstdint>

namespace zplan::exec::cpu {

inline constexpr double kLargestE4m3 = 448;

// The nearest of the format's values, ties to even; magnitudes are at most kLargestE4m3.
double round_to_e4m3(double value);

struct Fp8Blocks {
  std::int64_t rows, columns;              // of the array
  std::int64_t block_rows, block_columns;  // the last ones may be smaller
};

// y = x, each block divided by its greatest magnitude over 448, rounded, and multiplied again.
template <typename T>
void round_fp8(T* y, const T* x, const Fp8Blocks& blocks);

}  // namespace zplan::exec::cpu
