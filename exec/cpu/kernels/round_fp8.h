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

// Rows of e4m3 codes, each followed by its scales in double: one for each `block` of the columns,
// 0: for all.
struct Fp8Rows {
  std::int64_t rows, columns, block;

  std::int64_t block_columns() const { return block == 0 ? columns : block; }
  std::int64_t scales() const { return (columns + block_columns() - 1) / block_columns(); }
  std::int64_t row_bytes() const {
    return columns + scales() * static_cast<std::int64_t>(sizeof(double));
  }
};

// The codes of x, of the values that round_fp8 gives in blocks of one row; and x of its codes.
template <typename T>
void quantize_rows(std::uint8_t* codes, const T* x, const Fp8Rows& shape);
template <typename T>
void dequantize_rows(T* x, const std::uint8_t* codes, const Fp8Rows& shape);

}  // namespace zplan::exec::cpu
