// Elementwise kernels over n elements of any shape, on a stream. out may be the same pointer as an
// input; other overlaps are not allowed. T is float, __half or __nv_bfloat16, arithmetic in float.
// The formulas stand in exec/cpu/kernels/elementwise.h.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "exec/kernels/arguments.h"

namespace zplan::exec::cuda {

// y = gelu(x), tanh form. [Hendrycks16] 2 n elements moved.
template <typename T>
void gelu_forward(cudaStream_t stream, T* y, const T* x, std::int64_t n,
                  ActivationFunction function = ActivationFunction::kGeluTanh);

// dx = dy gelu'(x), overwritten; 3 n elements moved.
template <typename T>
void gelu_backward(cudaStream_t stream, T* dx, const T* dy, const T* x, std::int64_t n,
                   ActivationFunction function = ActivationFunction::kGeluTanh);

// y = silu(gate) up with x = gate | up. [Shazeer20] 3 T f elements moved.
template <typename T>
void swiglu_forward(cudaStream_t stream, const SwigluShape& shape, T* y,  // [T, f]
                    const T* x);                                          // [T, 2 f]
// dx = dgate | dup, overwritten; may be x. 5 T f elements moved.
template <typename T>
void swiglu_backward(cudaStream_t stream, const SwigluShape& shape, T* dx, const T* dy, const T* x);

// x = factor x: 2 n elements moved.
template <typename T>
void scale(cudaStream_t stream, T* x, std::int64_t n, double factor);

// y = cap tanh(x / cap): 2 n elements moved. [Gemma24]
template <typename T>
void soft_cap_forward(cudaStream_t stream, T* y, const T* x, std::int64_t n, double cap);

// dx, the gradient of y, becomes that of x: 3 n elements moved.
template <typename T>
void soft_cap_backward(cudaStream_t stream, T* dx, const T* x, std::int64_t n, double cap);

// out = x + y: 3 n elements moved.
template <typename T>
void residual_add(cudaStream_t stream, T* out, const T* x, const T* y, std::int64_t n);

// out = x + (y + bias), out [rows, columns], bias [columns]: 3 rows columns elements moved.
template <typename T>
void bias_residual_add(cudaStream_t stream, T* out, const T* x, const T* y, const T* bias,
                       std::int64_t rows, std::int64_t columns);

// Between types. y += x: 3 n elements moved.
template <typename To, typename From>
void accumulate(cudaStream_t stream, To* y, const From* x, std::int64_t n);

// y = x, rounded to the nearest: 2 n elements moved.
template <typename To, typename From>
void cast(cudaStream_t stream, To* y, const From* x, std::int64_t n);

// Zeros of any type: `bytes` written, an even number.
void fill_zero(cudaStream_t stream, void* y, std::int64_t bytes);

}  // namespace zplan::exec::cuda
