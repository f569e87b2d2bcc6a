// Causal softmax of stored scores and its gradient, rows of [b, a, s, s]: row i of each square sees
// its first i + 1 elements [Vaswani17 Eq.1]. T: float, __half, __nv_bfloat16; sums in float. In
// place, a block per row; definition: exec/cpu/kernels/attention_unfused.h.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "exec/kernels/arguments.h"

namespace zplan::exec::cuda {

// A row becomes the softmax of what it sees, then zeros: read and written once.
template <typename T>
void softmax_forward(cudaStream_t stream, const SquareRows& shape, T* scores);

// dprobs becomes p (dprobs - sum of p dprobs), what is hidden zero: 3 elements moved each.
template <typename T>
void softmax_backward(cudaStream_t stream, const SquareRows& shape, T* dprobs, const T* probs);

}  // namespace zplan::exec::cuda
