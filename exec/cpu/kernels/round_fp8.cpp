#include "exec/cpu/kernels/round_fp8.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "exec/cpu/kernels/kernel_support.h"

namespace zplan::exec::cpu {

double round_to(const Fp8Format& format, double value) {
  if (value == 0) return value;
  const int exponent = std::max(std::ilogb(value), format.least_exponent);
  const double step = std::ldexp(1.0, exponent - format.mantissa_bits);
  return std::nearbyint(value / step) * step;
}

namespace {

double scale_of(double greatest, const Fp8Format& format) {
  return greatest > 0 ? greatest / format.largest : 1;
}

// Rounds from fp32 as a device does: what is halfway up to the rounding of fp64 is halfway.
double rounded(double value, double scale, const Fp8Format& format) {
  return round_to(format, static_cast<float>(value / scale));
}

constexpr std::uint8_t kSign = 0x80;

// A value of e4m3: sign, exponent, mantissa; exponent 0 is that of numbers without a leading 1.
std::uint8_t code_of(double value) {
  const std::uint8_t sign = std::signbit(value) ? kSign : 0;
  if (value == 0) return sign;
  const int exponent = std::max(std::ilogb(value), kE4m3.least_exponent);
  const auto mantissa =
      static_cast<int>(std::ldexp(std::abs(value), kE4m3.mantissa_bits - exponent));
  const int leading = 1 << kE4m3.mantissa_bits;
  const int field = mantissa < leading ? 0 : exponent - kE4m3.least_exponent + 1;
  return static_cast<std::uint8_t>(sign | (field << kE4m3.mantissa_bits) | (mantissa % leading));
}

double value_of(std::uint8_t code) {
  const int leading = 1 << kE4m3.mantissa_bits;
  const int field = (code & ~kSign) >> kE4m3.mantissa_bits, mantissa = code % leading;
  const int exponent = std::max(field - 1, 0) + kE4m3.least_exponent - kE4m3.mantissa_bits;
  const double magnitude = std::ldexp(field == 0 ? mantissa : mantissa + leading, exponent);
  return (code & kSign) != 0 ? -magnitude : magnitude;
}

}  // namespace

template <typename T>
void quantize_rows(std::uint8_t* codes, const T* x, const Fp8Rows& shape) {
  for_blocks(shape.rows, 1, shape.rows * shape.columns, [&](std::int64_t row, std::int64_t) {
    const T* const in = x + row * shape.columns;
    std::uint8_t* const out = codes + row * shape.row_bytes();
    for (std::int64_t b = 0; b < shape.scales(); ++b) {
      const std::int64_t first = b * shape.block_columns();
      const std::int64_t end = std::min(first + shape.block_columns(), shape.columns);
      double greatest = 0;
      for (std::int64_t j = first; j < end; ++j)
        greatest = std::max(greatest, std::abs(static_cast<double>(in[j])));
      const double scale = scale_of(greatest, kE4m3);
      for (std::int64_t j = first; j < end; ++j)
        out[j] = code_of(rounded(static_cast<double>(in[j]), scale, kE4m3));
      std::memcpy(out + shape.columns + b * sizeof scale, &scale, sizeof scale);
    }
  });
}

template <typename T>
void dequantize_rows(T* x, const std::uint8_t* codes, const Fp8Rows& shape) {
  for_blocks(shape.rows, 1, shape.rows * shape.columns, [&](std::int64_t row, std::int64_t) {
    const std::uint8_t* const in = codes + row * shape.row_bytes();
    for (std::int64_t j = 0; j < shape.columns; ++j) {
      double scale = 0;
      std::memcpy(&scale, in + shape.columns + j / shape.block_columns() * sizeof scale,
                  sizeof scale);
      x[row * shape.columns + j] = static_cast<T>(static_cast<Compute<T>>(value_of(in[j]) * scale));
    }
  });
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
    const double scale = scale_of(greatest, b.format);
    for (std::int64_t i = row; i < row_end; ++i)
      for (std::int64_t j = first; j < end; ++j) {
        const double value = rounded(static_cast<double>(x[i * b.columns + j]), scale, b.format);
        y[i * b.columns + j] = static_cast<T>(static_cast<Compute<T>>(value * scale));
      }
  });
}

#define ZPLAN_INSTANTIATE(T)                                               \
  template void round_fp8<T>(T*, const T*, const Fp8Blocks&);              \
  template void quantize_rows<T>(std::uint8_t*, const T*, const Fp8Rows&); \
  template void dequantize_rows<T>(T*, const std::uint8_t*, const Fp8Rows&);
ZPLAN_FOR_STORED_TYPES(ZPLAN_INSTANTIATE)
#undef ZPLAN_INSTANTIATE

}  // namespace zplan::exec::cpu
