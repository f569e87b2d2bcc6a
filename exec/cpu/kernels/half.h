// The 16-bit floating-point types as the executor stores them: bf16 (8 exponent, 7 mantissa bits)
// and fp16 (IEEE 754 binary16: 5 and 10). Values widen exactly to float and narrow from it to the
// nearest, ties to even; too large ones become infinity, NaN stays NaN. Arithmetic is float's: a
// kernel loads, computes in Compute<T> and stores.
// The conversions are branch-free, so loops over them vectorise.
// Left out: arithmetic on the types themselves, fp8.
#pragma once

#include <bit>
#include <cstdint>

#include "exec/kernels/compute_type.h"

namespace zplan::exec::cpu {

struct Bf16 {
  std::uint16_t bits;

  Bf16() = default;
  explicit constexpr Bf16(float value) : bits(narrow(value)) {}
  constexpr operator float() const {  // NOLINT: widening is exact
    return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
  }

 private:
  static constexpr std::uint16_t narrow(float value) {
    const auto word = std::bit_cast<std::uint32_t>(value);
    const std::uint32_t rounded = word + 0x7fff + ((word >> 16) & 1);
    const bool is_nan = (word & 0x7fffffff) > 0x7f800000;  // rounding could turn it into infinity
    return static_cast<std::uint16_t>((is_nan ? word | 0x00400000 : rounded) >> 16);
  }
};

struct Fp16 {
  std::uint16_t bits;

  Fp16() = default;
  explicit constexpr Fp16(float value) : bits(narrow(value)) {}
  constexpr operator float() const { return widen(bits); }  // NOLINT: widening is exact

 private:
  // [derived] Exponent and mantissa move to their places in a float; a product with 2^(127 - 15)
  // corrects the exponent and normalises subnormals. Infinity and NaN then have too small an
  // exponent: they get float's own.
  static constexpr float widen(std::uint16_t half) {
    const std::uint32_t magnitude = half & 0x7fffu, sign = (half & 0x8000u) << 16;
    const float scaled = std::bit_cast<float>(magnitude << 13) * 0x1p112f;
    const std::uint32_t special = magnitude >= 0x7c00u ? 0x7f800000u : 0u;
    return std::bit_cast<float>(std::bit_cast<std::uint32_t>(scaled) | special | sign);
  }

  // [derived] Adding a power of two whose last bit is the last bit of the result rounds there, ties
  // to even: 2^(e + 13) for a value in [2^e, 2^(e+1)), at least that of the smallest normal number
  // 2^-14. What is left in the low bits of the sum is the mantissa, its carry moves the exponent.
  static constexpr std::uint16_t narrow(float value) {
    const auto word = std::bit_cast<std::uint32_t>(value);
    const std::uint32_t magnitude = word & 0x7fffffffu, sign = (word >> 16) & 0x8000u;
    const bool is_nan = magnitude > 0x7f800000u;
    const bool is_infinite = magnitude >= 0x47800000u;  // 2^16; less may still round to infinity
    const std::uint32_t least = 0x38800000u;            // 2^-14
    const std::uint32_t bounded = is_infinite ? least : magnitude;
    const std::uint32_t exponent = (bounded > least ? bounded : least) & 0x7f800000u;
    const float rounder = std::bit_cast<float>(exponent + (13u << 23));
    const std::uint32_t sum = std::bit_cast<std::uint32_t>(std::bit_cast<float>(bounded) + rounder);
    // The mantissa with its leading 1 (absent in subnormals) adds one to the exponent field.
    const std::uint32_t mantissa = sum - std::bit_cast<std::uint32_t>(rounder);
    const std::uint32_t finite = ((exponent - least) >> 13) + mantissa;
    const std::uint32_t result = is_nan ? 0x7e00u : is_infinite ? 0x7c00u : finite;
    return static_cast<std::uint16_t>(result | sign);
  }
};

static_assert(sizeof(Bf16) == 2 && sizeof(Fp16) == 2);

template <typename T>
inline constexpr bool kIsHalf = sizeof(T) == 2;

// value rounded down or up to a neighbour of T, up with the probability of its distance from the
// lower one, so that small updates are kept on average [Gupta15]. `random`: at least 16 equally
// distributed low bits. Subnormals of T round to the nearest; infinity and NaN stay. [derived] The
// magnitude goes up iff the bits cut off plus the random ones carry.
template <typename T>
inline T round_stochastically(float value, std::uint32_t random) {
  constexpr std::uint32_t kCut = std::is_same_v<T, Bf16> ? 0xffffu : 0x1fffu;
  constexpr std::uint32_t kLeast = std::is_same_v<T, Bf16> ? 0x00800000u : 0x38800000u;
  const auto word = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t magnitude = word & 0x7fffffffu;
  const bool is_ordinary = magnitude >= kLeast && magnitude < 0x7f800000u;
  const std::uint32_t rounded = (word + (random & kCut)) & ~kCut;
  return T(std::bit_cast<float>(is_ordinary ? rounded : word));
}

}  // namespace zplan::exec::cpu
