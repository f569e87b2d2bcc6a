// Sums over the rows of an array, one per column, in an order set by the shape and the size of the
// scratch alone: blocks sum pieces of the rows into scratch, then the pieces are summed.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "planner/core/units.h"

namespace zplan::exec::cuda {

// Device memory for sums of pieces. More of it makes more pieces, up to a bound, thus more blocks.
struct DeviceScratch {
  float* data;
  Bytes size;
};

// The least that column_sums needs: one piece.
Bytes column_sums_scratch_bytes(std::int64_t columns);

// out[columns] (+)= sum over rows of in[rows, columns]. T is float, __half or __nv_bfloat16, G of T
// or float; sums in float. rows columns flop; in is read once.
template <typename T, typename G>
void column_sums(cudaStream_t stream, G* out, const T* in, std::int64_t rows, std::int64_t columns,
                 bool accumulate, DeviceScratch scratch);

}  // namespace zplan::exec::cuda
