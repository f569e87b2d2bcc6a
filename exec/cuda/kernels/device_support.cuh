// What the kernels of this folder share on the device: conversions, 16-byte packs of elements,
// loops over them and deterministic reductions over a block.
// Arithmetic is in Compute<T>, float but of double; narrowing rounds to the nearest, ties to even.
// All blocks are whole warps, and no thread leaves a kernel early.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>
#include <type_traits>

namespace zplan::exec::cuda {

template <typename T>
using Compute = std::conditional_t<std::is_same_v<T, double>, double, float>;

__device__ inline float widen(float value) { return value; }
__device__ inline double widen(double value) { return value; }
__device__ inline float widen(__half value) { return __half2float(value); }
__device__ inline float widen(__nv_bfloat16 value) { return __bfloat162float(value); }

template <typename T>
__device__ inline T narrow(Compute<T> value) {
  if constexpr (std::is_same_v<T, __half>) {
    return __float2half_rn(value);
  } else if constexpr (std::is_same_v<T, __nv_bfloat16>) {
    return __float2bfloat16_rn(value);
  } else {
    return value;
  }
}

// ---- packs: kWidth neighbours, moved 16 bytes at a time where they fill so many
// ------------------

template <typename T, int kWidth>
struct alignas(sizeof(T) * kWidth < 16 ? sizeof(T) * kWidth : 16) Pack {
  T at[kWidth];
};

template <typename C, int kWidth>
struct Values {
  C at[kWidth];
};

template <int kWidth, typename T>
__device__ inline Values<Compute<T>, kWidth> load(const T* from) {
  const auto pack = *reinterpret_cast<const Pack<T, kWidth>*>(from);
  Values<Compute<T>, kWidth> values;
#pragma unroll
  for (int k = 0; k < kWidth; ++k) values.at[k] = widen(pack.at[k]);
  return values;
}

template <int kWidth, typename T>
__device__ inline void store(T* to, const Values<Compute<T>, kWidth>& values) {
  Pack<T, kWidth> pack;
#pragma unroll
  for (int k = 0; k < kWidth; ++k) pack.at[k] = narrow<T>(values.at[k]);
  *reinterpret_cast<Pack<T, kWidth>*>(to) = pack;
}

// ---- loops
// ---------------------------------------------------------------------------------------

template <int kWidth>
using Width = std::integral_constant<int, kWidth>;

__device__ inline std::int64_t thread_of_grid() {
  return static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
}
__device__ inline std::int64_t threads_of_grid() {
  return static_cast<std::int64_t>(gridDim.x) * blockDim.x;
}

// Calls body(Width, i) for packs of n elements and then, one by one, for those left over.
template <int kWidth, typename Body>
__device__ inline void for_packs(std::int64_t n, const Body& body) {
  const std::int64_t packed = n / kWidth * kWidth, stride = threads_of_grid();
  for (std::int64_t i = thread_of_grid() * kWidth; i < packed; i += stride * kWidth)
    body(Width<kWidth>{}, i);
  if constexpr (kWidth > 1) {
    for (std::int64_t i = packed + thread_of_grid(); i < n; i += stride) body(Width<1>{}, i);
  }
}

// Calls body(row) for the rows of this block.
template <typename Body>
__device__ inline void for_rows(std::int64_t rows, const Body& body) {
  for (std::int64_t row = blockIdx.x; row < rows; row += gridDim.x) body(row);
}

// Calls body(j) with the packs of a row that are this thread's; kWidth divides columns.
template <int kWidth, typename Body>
__device__ inline void for_columns(std::int64_t columns, const Body& body) {
  const std::int64_t stride = static_cast<std::int64_t>(blockDim.x) * kWidth;
  for (std::int64_t j = static_cast<std::int64_t>(threadIdx.x) * kWidth; j < columns; j += stride)
    body(j);
}

// ---- reductions
// ----------------------------------------------------------------------------------

inline constexpr int kWarp = 32;
inline constexpr int kMostWarps = 32;  // of a block
inline constexpr unsigned kAllLanes = 0xffffffffu;

struct Add {
  template <typename V>
  __device__ V operator()(V a, V b) const {
    return a + b;
  }
};

__device__ inline float of_lane(float value, int mask) {
  return __shfl_xor_sync(kAllLanes, value, mask);
}
__device__ inline double of_lane(double value, int mask) {
  return __shfl_xor_sync(kAllLanes, value, mask);
}

// The values of all threads of a block merged, in an order set by the block's size alone; every
// thread has the result. `merge` is commutative. of_lane(V, mask) is the V of another lane.
template <typename V, typename Merge>
__device__ inline V block_reduce(V value, const Merge& merge) {
  __shared__ V of_warps[kMostWarps];
  for (int mask = kWarp / 2; mask > 0; mask /= 2) value = merge(value, of_lane(value, mask));
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  if (threadIdx.x % kWarp == 0) of_warps[warp] = value;
  __syncthreads();
  V result = of_warps[0];
  for (int w = 1; w < static_cast<int>(blockDim.x) / kWarp; ++w)
    result = merge(result, of_warps[w]);
  __syncthreads();  // of_warps may be written again
  return result;
}

template <typename V>
__device__ inline V block_sum(V value) {
  return block_reduce(value, Add{});
}

}  // namespace zplan::exec::cuda
