// Normalisation over the hidden dimension, with statistics in float. The formulas and eps stand in
// exec/cpu/kernels/norm.h.
//   LayerNorm  y = (x - mean) rstd gain + bias [Ba16]
//   RMSNorm    y = x rstd gain                 [Zhang19]: mean, bias and dbias are null
// T is float, __half or __nv_bfloat16, G the type of the gradients of gain and bias: T or float.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "exec/cuda/kernels/column_sums.h"
#include "exec/kernels/arguments.h"

namespace zplan::exec::cuda {

// A block has a row: x read once from memory, then from cache; y written once. 2 T h elements
// moved.
template <typename T>
void layernorm_forward(cudaStream_t stream, const NormShape& shape, const NormForward<T>& x);
template <typename T>
void rmsnorm_forward(cudaStream_t stream, const NormShape& shape, const NormForward<T>& x);

// The norm of a sum as it is rounded to T; norm.x is sum.sum. A block has a row: x and y read once,
// the sum written and then read from cache, norm.y written once. 4 T h elements moved.
template <typename T>
void residual_layernorm_forward(cudaStream_t stream, const NormShape& shape,
                                const ResidualSum<T>& sum, const NormForward<T>& norm);
template <typename T>
void residual_rmsnorm_forward(cudaStream_t stream, const NormShape& shape,
                              const ResidualSum<T>& sum, const NormForward<T>& norm);

// The least scratch that the gradients of gain and bias need.
Bytes norm_scratch_bytes(const NormShape& shape);

// dy and x read once, dx written once: 3 T h elements moved; of rows of more than 8,192 elements of
// 16 bits, or half as many of 32, dy and x are read a second time for the sums over rows.
template <typename T, typename G>
void layernorm_backward(cudaStream_t stream, const NormShape& shape, const NormBackward<T, G>& x,
                        DeviceScratch scratch);
template <typename T, typename G>
void rmsnorm_backward(cudaStream_t stream, const NormShape& shape, const NormBackward<T, G>& x,
                      DeviceScratch scratch);

}  // namespace zplan::exec::cuda
