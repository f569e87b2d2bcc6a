// Token and position embedding, and its gradient, of a piece of the vocabulary: tokens outside
// [first, first + rows) look up 0 and have no gradient here [Shoeybi19 sec 3]. Positions as in
// [Radford19]. T is float, __half or __nv_bfloat16, G of T or float.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "exec/cuda/kernels/column_sums.h"
#include "exec/kernels/arguments.h"

namespace zplan::exec::cuda {

// x = wte[token] + wpe[position]: 3 b s h elements moved.
template <typename T>
void embedding_forward(cudaStream_t stream, const EmbeddingShape& shape,
                       const EmbeddingForward<T>& x);

// dwte[v] (+)= sum of dx where token = v, in token order, rounded once to G; dwpe[i] (+)= sum over
// b of dx[b, i]. The tokens are sorted first, few of them by counting. dx is read once, and again
// for each token that is not the first of its kind; overwriting writes all of dwte once, adding
// reads and writes the rows that are touched.
template <typename T, typename G>
void embedding_backward(cudaStream_t stream, const EmbeddingShape& shape,
                        const EmbeddingBackward<T, G>& x, DeviceScratch scratch);
Bytes embedding_scratch_bytes(const EmbeddingShape& shape);

}  // namespace zplan::exec::cuda
