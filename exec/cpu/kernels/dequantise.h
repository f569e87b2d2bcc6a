// This kernel writes the values that 4-bit codes stand for (exec/kernels/four_bits.h).
#pragma once

#include <cstdint>

#include "exec/kernels/four_bits.h"

namespace zplan::exec::cpu {

// A matrix of n elements; scales are of S, that of statistics.
template <typename S>
struct CodedMatrix {
  const std::uint8_t* codes;
  const S* scales;                  // of each block of 64; null: they have 8 bits
  const std::uint8_t* scale_codes;  // and so many 255ths of
  const S* constants;               // those of 256 blocks
  std::int64_t n;
  bool is_fp4;
};

// y[n]
template <typename T, typename S>
void dequantise(T* y, const CodedMatrix<S>& x);

}  // namespace zplan::exec::cpu
