#include "exec/cpu/kernels/round_fp8.h"

#include <algorithm>
#include <cmath>

#include "exec/cpu/kernels/kernel_support.h"

namespace zplan::exec::cpu {

double round_to(const Fp8Format& format, double value) {
  if (value == 0) return value;
  const int exponent = std::max(std::ilogb(value), format.least_exponent);
  const double step = std::ldexp(1.0, exponent - format.mantissa_bits);
  return std::nearbyint(value / step) * step;
}

template <typename T>
void round_fp8(T* y, const T* x, const Fp8Blocks& b) {
  const std::int64_t across = ceil_div(b.columns, b.block_columns);
  const std::int64_t blocks = ceil_div(b.rows, b.block_rows) * across;
  for_blocks(blocks, 1, b.rows * b.columns, [&](std::int64_t block, std::int64_t) {
    const std::int64_t row = block / across * b.block_rows,
                       first = block % across * b.block_columns;
    const std::int64_t row_end = std::min(row + b.block_rows, b.rows),
                       end = std::min(first + b.block_columns, b.columns);
    double greatest = 0;
    for (std::int64_t i = row; i < row_end; ++i)
      for (std::int64_t j = first; j < end; ++j)
        greatest = std::max(greatest, std::abs(static_cast<double>(x[i * b.columns + j])));
    const double scale = greatest > 0 ? greatest / b.format.largest : 1;
    for (std::int64_t i = row; i < row_end; ++i)
      for (std::int64_t j = first; j < end; ++j) {
        // As a device does, from fp32: what lies halfway but for the rounding of fp64 lies there.
        const auto scaled = static_cast<float>(static_cast<double>(x[i * b.columns + j]) / scale);
        y[i * b.columns + j] =
            static_cast<T>(static_cast<Compute<T>>(round_to(b.format, scaled) * scale));
      }
  });
}

#define ZPLAN_INSTANTIATE(T) template void round_fp8<T>(T*, const T*, const Fp8Blocks&);
ZPLAN_FOR_STORED_TYPES(ZPLAN_INSTANTIATE)
#undef ZPLAN_INSTANTIATE

}  // namespace zplan::exec::cpu
