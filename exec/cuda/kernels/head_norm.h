// RMSNorm of single heads [Zhang19]: formulas in exec/cpu/kernels/head_norm.h, statistics in float.
// T is float, __half or __nv_bfloat16, G the type of the gradient of the gain: T or float.
#pragma once

#include <cuda_runtime_api.h>

#include "exec/cuda/kernels/column_sums.h"
#include "exec/kernels/head_norm.h"

namespace zplan::exec::cuda {

// Lanes of a warp have a head of a token: x is read once from memory, then from cache, and written
// twice.
template <typename T>
void head_norm_forward(cudaStream_t stream, const HeadNormShape& shape,
                       const HeadNormForward<T>& x);

// The least scratch that the gradient of the gain needs.
Bytes head_norm_scratch_bytes(const HeadNormShape& shape);

// dy and x are read once and dx is written once; of heads of more than 256 elements dy and x are
// read a second time for the sums over heads and tokens.
template <typename T, typename G>
void head_norm_backward(cudaStream_t stream, const HeadNormShape& shape,
                        const HeadNormBackward<T, G>& x, DeviceScratch scratch);

}  // namespace zplan::exec::cuda
