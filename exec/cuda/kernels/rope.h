// Rotary positions: element i of the first half of a head and element i of the second half turn by
// the angle position theta^(-2 i / d). [Su21] Angles in double, as in exec/cpu/kernels/rope.h.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "exec/kernels/arguments.h"

namespace zplan::exec::cuda {

// x [b, s, heads, d] in place, T float, __half or __nv_bfloat16; direction 1 forward, -1 backward,
// which turns back. A block per position; the turned heads are read and written once.
template <typename T>
void rope(cudaStream_t stream, const RopeShape& shape, T* x, double theta, int direction);

}  // namespace zplan::exec::cuda
