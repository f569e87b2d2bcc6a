// Launches: sizes of blocks and grids, width of accesses, and the one place that starts kernels.
// Nothing is asked of the device, so a launch costs no call but its own.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <initializer_list>

#include "exec/cuda/check.h"
#include "exec/cuda/kernels/device_support.cuh"
#include "planner/core/units.h"

namespace zplan::exec::cuda {

struct Grid {
  std::int64_t blocks;
  int threads;
};

// [assumed] several rounds of blocks on the largest devices; what is left is looped over.
inline constexpr std::int64_t kMostBlocks = 4096;

// Whole warps for so many packs of work, at most `most` threads.
inline int threads_for(std::int64_t packs, int most = kThreads) {
  return static_cast<int>(std::clamp<std::int64_t>(round_up(packs, kWarp), kWarp, most));
}

// Every thread has one pack of n elements, as long as kMostBlocks allow.
inline Grid grid_of(std::int64_t n, int width) {
  const std::int64_t packs = ceil_div(n, width);
  return {std::clamp<std::int64_t>(ceil_div(packs, kThreads), 1, kMostBlocks), threads_for(packs)};
}

// One block per row. A thread for each pack of a row, at most `most`.
inline Grid grid_of_rows(std::int64_t rows, std::int64_t columns, int width, int most = kThreads) {
  return {std::clamp<std::int64_t>(rows, 1, kMostBlocks),
          threads_for(ceil_div(columns, width), most)};
}

// A power of two of lanes of a warp for each of `rows` short rows, at most `blocks` blocks.
struct LaneGrid {
  Grid grid;
  int lanes;
};
inline int lanes_of(std::int64_t columns, int width) {
  const std::int64_t packs = std::clamp<std::int64_t>(ceil_div(columns, width), 1, kWarp);
  return static_cast<int>(std::bit_ceil(static_cast<unsigned>(packs)));
}
inline LaneGrid grid_of_lanes(std::int64_t rows, std::int64_t columns, int width,
                              std::int64_t blocks = kMostBlocks) {
  const int lanes = lanes_of(columns, width);
  return {{std::clamp<std::int64_t>(ceil_div(rows * lanes, kThreads), 1, blocks), kThreads}, lanes};
}

// Elements of T in 16 bytes.
template <typename T>
inline constexpr int kWidthOf = 16 / static_cast<int>(sizeof(T));

inline bool is_aligned(std::initializer_list<const void*> addresses) {
  return std::all_of(addresses.begin(), addresses.end(), [](const void* address) {
    return reinterpret_cast<std::uintptr_t>(address) % 16 == 0;
  });
}

// Calls body(Width) with the widest access that is possible.
template <int kWidest, typename Body>
void with_width(bool wide, const Body& body) {
  if (wide) {
    body(Width<kWidest>{});
  } else {
    body(Width<1>{});
  }
}

#ifdef __CUDACC__  // a build for the host brings its own
template <typename... P, typename... A>
void launch(cudaStream_t stream, const char* name, Grid grid, void (*kernel)(P...),
            A... arguments) {
  kernel<<<static_cast<unsigned>(grid.blocks), static_cast<unsigned>(grid.threads), 0, stream>>>(
      static_cast<P>(arguments)...);
  check(cudaGetLastError(), name);
}
#endif

#define ZPLAN_FOR_CUDA_TYPES(M) M(float) M(__half) M(__nv_bfloat16)
// Activations and their gradients.
#define ZPLAN_FOR_CUDA_GRADIENTS(M) \
  M(float, float)                   \
  M(__half, __half) M(__half, float) M(__nv_bfloat16, __nv_bfloat16) M(__nv_bfloat16, float)
// States of any two types.
#define ZPLAN_FOR_CUDA_STATES_FROM(M, T) M(T, float) M(T, __half) M(T, __nv_bfloat16)
#define ZPLAN_FOR_CUDA_STATES(M)        \
  ZPLAN_FOR_CUDA_STATES_FROM(M, float)  \
  ZPLAN_FOR_CUDA_STATES_FROM(M, __half) \
  ZPLAN_FOR_CUDA_STATES_FROM(M, __nv_bfloat16)

}  // namespace zplan::exec::cuda
