// Short rows, of which lanes of a warp that lie side by side, a power of two of them, have one.
#pragma once

#include "exec/cuda/kernels/device_support.cuh"

namespace zplan::exec::cuda {

// A thread among the lanes of its row, and these among those of the grid.
struct LaneRow {
  int lanes, place;
  std::int64_t index, count;
};

__device__ inline LaneRow lane_row(int lanes) {
  const int of_block = static_cast<int>(blockDim.x) / lanes;
  const int own = static_cast<int>(threadIdx.x) / lanes;
  return {lanes, static_cast<int>(threadIdx.x) % lanes,
          static_cast<std::int64_t>(blockIdx.x) * of_block + own,
          static_cast<std::int64_t>(gridDim.x) * of_block};
}

// Calls body(row, whether it is one) with the rows of these lanes, all lanes of a warp together.
template <typename Body>
__device__ inline void for_lane_rows(const LaneRow& own, std::int64_t rows, const Body& body) {
  const std::int64_t in_warp = static_cast<std::int64_t>(threadIdx.x) % kWarp / own.lanes;
  for (std::int64_t first = own.index - in_warp; first < rows; first += own.count)
    body(first + in_warp, first + in_warp < rows);
}

// The same with kAhead rows under way: read(row) of each, then write(row, what was read), for which
// all lanes of the row have read it.
template <int kAhead, typename Read, typename Write>
__device__ inline void for_lane_rows_ahead(const LaneRow& own, std::int64_t rows, const Read& read,
                                           const Write& write) {
  const std::int64_t in_warp = static_cast<std::int64_t>(threadIdx.x) % kWarp / own.lanes;
#pragma unroll 1
  for (std::int64_t first = own.index - in_warp; first < rows; first += kAhead * own.count) {
    decltype(read(first)) ahead[kAhead]{};
#pragma unroll
    for (int p = 0; p < kAhead; ++p) {
      const std::int64_t row = first + in_warp + p * own.count;
      if (row < rows) ahead[p] = read(row);
    }
    __syncwarp();
#pragma unroll
    for (int p = 0; p < kAhead; ++p) {
      const std::int64_t row = first + in_warp + p * own.count;
      if (row < rows) write(row, ahead[p]);
    }
  }
}

// Calls body(p, j) with the first kPacks packs of a row that are this lane's.
template <int kWidth, int kPacks, typename Body>
__device__ inline void for_lane_packs(const LaneRow& own, int columns, const Body& body) {
#pragma unroll
  for (int p = 0; p < kPacks; ++p) {
    const int j = (own.place + p * own.lanes) * kWidth;
    if (j < columns) body(p, j);
  }
}

// Calls body(j) with all of them.
template <int kWidth, typename Body>
__device__ inline void for_lane_columns(const LaneRow& own, int columns, const Body& body) {
  for (int j = own.place * kWidth; j < columns; j += own.lanes * kWidth) body(j);
}

// Over the lanes of a row; each has the sum.
__device__ inline float sum_of_lanes(const LaneRow& own, float value) {
  for (int mask = own.lanes / 2; mask > 0; mask /= 2) value += of_lane(value, mask);
  return value;
}

}  // namespace zplan::exec::cuda
