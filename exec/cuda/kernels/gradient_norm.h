// The global norm of the gradients and the factor that clips them, as
// torch.nn.utils.clip_grad_norm_ [PyTorch]; definitions in exec/cpu/kernels/optimizer.h. In double,
// in device memory.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

namespace zplan::exec::cuda {

// *sum += sum of x[i]^2, x [n] of float, __half or __nv_bfloat16; partials [kPartials]. n elements
// read.
template <typename T>
void sum_squares(cudaStream_t stream, double* sum, const T* x, std::int64_t n, double* partials);

// clip [2] (step_scalars.h) from squares [1], the sum of squares of gradients that the loss scale
// multiplied, and scalars [11]. round_norm: the norm is rounded to float, so that the order of the
// sum does not show.
void clip_coefficient(cudaStream_t stream, double* clip, const double* squares,
                      const double* scalars, bool round_norm);

}  // namespace zplan::exec::cuda
