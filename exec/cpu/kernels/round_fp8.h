// Rounding to the formats of [Micikevicius22 Table 1] in blocks that have a scale each.
#pragma once

#include <cstdint>

namespace zplan::exec::cpu {

// Below 2^least_exponent its values are as far apart as just above it.
struct Fp8Format {
  int mantissa_bits, least_exponent;
  double largest;
};
inline constexpr Fp8Format kE4m3{3, -6, 448}, kE5m2{2, -14, 57344};

// The nearest of the format's values, ties to even; magnitudes are at most the largest.
double round_to(const Fp8Format& format, double value);

struct Fp8Blocks {
  std::int64_t rows, columns;              // of the array
  std::int64_t block_rows, block_columns;  // the last ones may be smaller
  Fp8Format format = kE4m3;
};

// y = x, each block divided by its greatest magnitude over that of the format, rounded, and
// multiplied again.
template <typename T>
void round_fp8(T* y, const T* x, const Fp8Blocks& blocks);

}  // namespace zplan::exec::cpu
