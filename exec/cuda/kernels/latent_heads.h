// Queries, keys and values of latent attention side by side, from the products that give them, and
// their gradients: formulas in exec/cpu/kernels/latent_heads.h. T is float, __half or
// __nv_bfloat16; angles are taken in double.
#pragma once

#include <cuda_runtime_api.h>

#include "exec/kernels/latent_heads.h"

namespace zplan::exec::cuda {

// A block per position: each element is read once and written once, the shared rope once per head.
template <typename T>
void latent_heads_forward(cudaStream_t stream, const LatentHeadsShape& shape,
                          const LatentHeadsForward<T>& x);

// Gradients of the shared rope are summed over parts of the heads and then over these, in an order
// set by the shape alone.
template <typename T>
void latent_heads_backward(cudaStream_t stream, const LatentHeadsShape& shape,
                           const LatentHeadsBackward<T>& x);

}  // namespace zplan::exec::cuda
