// What the kernels of this folder share on the device: loops over packs of elements (packs.cuh) and
// deterministic reductions over a block. All blocks are whole warps, and no thread leaves a kernel
// early.
#pragma once

#include "exec/cuda/kernels/packs.cuh"

namespace zplan::exec::cuda {

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

// For more loads under way than one: read(i) of kAhead places begin, begin + stride .. before end,
// then write(i, what was read) of each.
template <int kAhead, typename Index, typename Read, typename Write>
__device__ inline void for_ahead(Index begin, Index end, Index stride, const Read& read,
                                 const Write& write) {
#pragma unroll 1
  for (Index i = begin; i < end; i += kAhead * stride) {
    decltype(read(i)) ahead[kAhead]{};
#pragma unroll
    for (int p = 0; p < kAhead; ++p)
      if (i + p * stride < end) ahead[p] = read(i + p * stride);
#pragma unroll
    for (int p = 0; p < kAhead; ++p)
      if (i + p * stride < end) write(i + p * stride, ahead[p]);
  }
}

// As for_packs, with kAhead packs under way: read(Width, i), then write(Width, i, what was read).
template <int kWidth, int kAhead, typename Read, typename Write>
__device__ inline void for_packs_ahead(std::int64_t n, const Read& read, const Write& write) {
  const std::int64_t packed = n / kWidth * kWidth, thread = thread_of_grid();
  const auto run = [&](auto width, std::int64_t begin, std::int64_t end) {
    constexpr int w = decltype(width)::value;
    for_ahead<w == kWidth ? kAhead : 1>(
        begin, end, threads_of_grid() * w, [&](std::int64_t i) { return read(width, i); },
        [&](std::int64_t i, const auto& value) { write(width, i, value); });
  };
  run(Width<kWidth>{}, thread * kWidth, packed);
  if constexpr (kWidth > 1) run(Width<1>{}, packed + thread, n);
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

// The same with the first kPacks that are this thread's: body(p, j) with their numbers p.
template <int kWidth, int kPacks, typename Body>
__device__ inline void for_own_packs(int columns, const Body& body) {
#pragma unroll
  for (int p = 0; p < kPacks; ++p) {
    const int j = static_cast<int>(threadIdx.x + p * blockDim.x) * kWidth;
    if (j < columns) body(p, j);
  }
}

// ---- reductions
// ----------------------------------------------------------------------------------

inline constexpr int kWarp = 32;
// [assumed] of a block: eight warps hide latency and leave eight blocks for a multiprocessor.
inline constexpr int kThreads = 256;
inline constexpr int kMostRowThreads = 512;  // [assumed] of a block that has a row to itself
inline constexpr int kMostWarps = 32;        // of a block
// Threads that every multiprocessor of this architecture holds: Turing's is the smallest. [CUDA C++
// Programming Guide, technical specifications per compute capability]
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ == 750
inline constexpr int kResidentThreads = 1024;
#else
inline constexpr int kResidentThreads = 1536;
#endif
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
__device__ inline int of_lane(int value, int mask) {
  return __shfl_xor_sync(kAllLanes, value, mask);
}
__device__ inline double of_lane(double value, int mask) {
  return __shfl_xor_sync(kAllLanes, value, mask);
}

// The values of all threads of a block merged, in an order set by the block's size alone; every
// thread has the result. `merge` is commutative. of_lane(V, mask) is the V of another lane. Calls
// that follow each other take turns, 0 and 1: who starts one, all have read that before the last.
template <typename V, typename Merge>
__device__ inline V block_reduce_in_turn(V value, const Merge& merge, int turn) {
  __shared__ V of_warps[2][kMostWarps];
  for (int mask = kWarp / 2; mask > 0; mask /= 2) value = merge(value, of_lane(value, mask));
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  if (threadIdx.x % kWarp == 0) of_warps[turn][warp] = value;
  __syncthreads();
  V result = of_warps[turn][0];
  for (int w = 1; w < static_cast<int>(blockDim.x) / kWarp; ++w)
    result = merge(result, of_warps[turn][w]);
  return result;
}

template <typename V, typename Merge>
__device__ inline V block_reduce(V value, const Merge& merge) {
  value = block_reduce_in_turn(value, merge, 0);
  __syncthreads();  // the next may have the same turn
  return value;
}

template <typename V>
__device__ inline V block_sum(V value) {
  return block_reduce(value, Add{});
}

}  // namespace zplan::exec::cuda
