// Attention sinks [Xiao24] beside a fused attention: formulas in exec/cpu/kernels/sinks.h. T is
// float, __half or __nv_bfloat16, G the type of the gradient: T or float.
#pragma once

#include <cuda_runtime_api.h>

#include "exec/cuda/kernels/column_sums.h"
#include "exec/kernels/arguments.h"

namespace zplan::exec::cuda {

// Lanes of a warp have a row of a head: out is read and written once.
template <typename T>
void sinks_forward(cudaStream_t stream, const SinksShape& shape, const SinksForward<T>& x);

// The least scratch that the sums over tokens need.
Bytes sinks_scratch_bytes(const SinksShape& shape);

// dout and out are read once.
template <typename T, typename G>
void sinks_backward(cudaStream_t stream, const SinksShape& shape, const SinksBackward<T, G>& x,
                    DeviceScratch scratch);

}  // namespace zplan::exec::cuda
