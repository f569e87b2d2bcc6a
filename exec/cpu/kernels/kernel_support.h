// What the CPU kernels of this folder share: fixed work blocks, vector width, exp. Internal to
// exec/cpu/kernels.
// Nothing here depends on the number of OpenMP threads: blocks have fixed sizes, so the summation
// order of an output element is a property of the shape alone.
// Left out: run-time dispatch on the instruction set; the build decides (see CMakeLists.txt).
#pragma once

#include <bit>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "exec/cpu/kernels/half.h"
#include "planner/core/units.h"

namespace zplan::exec::cpu {

// Elements per block of an elementwise kernel, 32-128 KiB of traffic; less work than that runs on
// one thread, since a fork costs more.
inline constexpr std::int64_t kElementBlock = 8192;
// Multiply-adds of a product below which a fork costs more than it gains: about 2 us of one core.
inline constexpr std::int64_t kLeastParallelWork = 1 << 15;
// Columns per block of a column sum; its accumulators stay in the first-level cache.
inline constexpr std::int64_t kColumnBlock = 64;

// Element types of activations and parameters; pairs of them with the types of gradients.
#define ZPLAN_FOR_STORED_TYPES(M) M(float) M(double) M(Bf16) M(Fp16)
#define ZPLAN_FOR_GRADIENT_TYPES(M) \
  M(float, float) M(double, double) M(Bf16, Bf16) M(Bf16, float) M(Fp16, Fp16) M(Fp16, float)

// Calls body(begin, end) for consecutive blocks of [0, n), blocks spread over the OpenMP threads
// when the whole touches more than one block of elements.
template <typename Body>
void for_blocks(std::int64_t n, std::int64_t block, std::int64_t elements, const Body& body) {
  const std::int64_t blocks = ceil_div(n, block);
#pragma omp parallel for schedule(static) if (blocks > 1 && elements > kElementBlock)
  for (std::int64_t i = 0; i < blocks; ++i) {
    const std::int64_t begin = i * block;
    body(begin, begin + block < n ? begin + block : n);
  }
}

template <typename Body>
void for_elements(std::int64_t n, const Body& body) {
  for_blocks(n, kElementBlock, n, body);
}

// Blocks of whole rows of a [rows, columns] array, about kElementBlock elements each.
template <typename Body>
void for_rows(std::int64_t rows, std::int64_t columns, const Body& body) {
  const std::int64_t block = columns < kElementBlock ? ceil_div(kElementBlock, columns) : 1;
  for_blocks(rows, block, rows * columns, body);
}

// Blocks of at most kColumnBlock columns of a [rows, columns] array.
template <typename Body>
void for_columns(std::int64_t rows, std::int64_t columns, const Body& body) {
  for_blocks(columns, kColumnBlock, rows * columns, body);
}

#if defined(__AVX512F__)
inline constexpr int kVectorBytes = 64;
#elif defined(__AVX__)
inline constexpr int kVectorBytes = 32;
#else
inline constexpr int kVectorBytes = 16;
#endif

template <typename T>
inline constexpr int kVectorLanes = kVectorBytes / static_cast<int>(sizeof(T));

// exp(x) = 2^n exp(r), r = x - n ln 2, |r| <= ln(2)/2, ln 2 split in two parts so that n * high is
// exact; n is rounded by adding 1.5 * 2^(mantissa bits), which leaves it in the low bits. exp(r) is
// the Taylor polynomial. [derived] The first omitted term is (ln(2)/2)^14/14! = 4e-18 in double,
// (ln(2)/2)^8/8! = 5e-9 in float, both below half a unit in the last place. In float 20 flop: 6 to
// reduce the range, 7 multiply-adds.
template <typename T>
struct ExpConstants;
template <>
struct ExpConstants<double> {
  using Bits = std::int64_t;
  static constexpr int mantissa_bits = 52, degree = 13;
  static constexpr double least = -708.0, largest = 709.0, rounder = 6755399441055744.0,
                          ln2_high = 0x1.62e42feep-1, ln2_low = 0x1.a39ef35793c76p-33;
};
template <>
struct ExpConstants<float> {
  using Bits = std::int32_t;
  static constexpr int mantissa_bits = 23, degree = 7;
  static constexpr float least = -87.0f, largest = 88.0f, rounder = 12582912.0f,
                         ln2_high = 0x1.62e4p-1f, ln2_low = 0x1.7f7d1cp-20f;
};

template <typename T>
constexpr T inverse_factorial(int n) {
  double factorial = 1;
  for (int i = 2; i <= n; ++i) factorial *= i;
  return static_cast<T>(1.0 / factorial);
}

// Branch-free, so loops over it vectorise; 0 below `least` (no subnormals), infinity above
// `largest`, NaN stays NaN. Always inlined: a shared copy would carry one caller's compiler flags
// into all others.
template <typename T>
[[gnu::always_inline]] inline T fast_exp(T x) {
  using C = ExpConstants<T>;
  using Bits = typename C::Bits;
  constexpr T log2_e = static_cast<T>(1.4426950408889634074);
  T bounded = x < C::least ? C::least : x;
  bounded = bounded > C::largest ? C::largest : bounded;
  const T shifted = bounded * log2_e + C::rounder;
  const T n = shifted - C::rounder;
  const T r = (bounded - n * C::ln2_high) - n * C::ln2_low;
  T p = inverse_factorial<T>(C::degree);
#pragma GCC unroll 16
  for (int i = C::degree - 1; i >= 0; --i) p = p * r + inverse_factorial<T>(i);
  using Unsigned = std::make_unsigned_t<Bits>;
  const Unsigned exponent = std::bit_cast<Unsigned>(shifted) << C::mantissa_bits;
  const T value = std::bit_cast<T>(std::bit_cast<Unsigned>(p) + exponent);
  const T low = x < C::least ? static_cast<T>(0) : value;
  return x > C::largest ? std::numeric_limits<T>::infinity() : low;
}

}  // namespace zplan::exec::cpu
