// Philox4x32-10 of planner/core/philox.h on the device, and stochastic rounding as in
// exec/cpu/kernels/half.h: the same words and the same results.
#pragma once

#include "exec/cuda/kernels/device_support.cuh"

namespace zplan::exec::cuda {

struct PhiloxWords {
  std::uint32_t at[4];
};

__device__ inline PhiloxWords philox(PhiloxWords counter, std::uint32_t key0, std::uint32_t key1) {
  constexpr int kRounds = 10;  // [Salmon11 Table 2]
  constexpr std::uint64_t kMultiplier0 = 0xd2511f53, kMultiplier1 = 0xcd9e8d57;  // [Salmon11]
  constexpr std::uint32_t kWeyl0 = 0x9e3779b9, kWeyl1 = 0xbb67ae85;              // [Salmon11]
#pragma unroll
  for (int round = 0; round < kRounds; ++round) {
    const std::uint64_t product0 = kMultiplier0 * counter.at[0];
    const std::uint64_t product1 = kMultiplier1 * counter.at[2];
    counter = {{static_cast<std::uint32_t>(product1 >> 32) ^ counter.at[1] ^ key0,
                static_cast<std::uint32_t>(product1),
                static_cast<std::uint32_t>(product0 >> 32) ^ counter.at[3] ^ key1,
                static_cast<std::uint32_t>(product0)}};
    key0 += kWeyl0;
    key1 += kWeyl1;
  }
  return counter;
}

// value rounded down or up to a neighbour of T, up with the probability of its distance from the
// lower one [Gupta15], by 16 random bits; to the nearest where T is subnormal.
template <typename T>
__device__ inline T round_stochastically(float value, std::uint32_t random) {
  constexpr bool kIsBf16 = std::is_same_v<T, __nv_bfloat16>;
  constexpr std::uint32_t kCut = kIsBf16 ? 0xffffu : 0x1fffu;
  constexpr std::uint32_t kLeast = kIsBf16 ? 0x00800000u : 0x38800000u;
  const std::uint32_t word = __float_as_uint(value);
  const std::uint32_t magnitude = word & 0x7fffffffu;
  const bool is_ordinary = magnitude >= kLeast && magnitude < 0x7f800000u;
  const std::uint32_t rounded = (word + (random & kCut)) & ~kCut;
  return narrow<T>(__uint_as_float(is_ordinary ? rounded : word));
}

}  // namespace zplan::exec::cuda
