// Columns of a matrix cut into pieces that lie one after the other, and back, as
// exec/cpu/kernels/columns.h does. T float, __half or __nv_bfloat16.
#pragma once

#include <cuda_runtime_api.h>

#include "exec/kernels/arguments.h"

namespace zplan::exec::cuda {

// y [c, T, m] = the pieces of x [T, c m]. 2 T c m elements moved.
template <typename T>
void split_columns(cudaStream_t stream, const ColumnPieces& shape, T* y, const T* x);

// y [T, c m] from pieces x [c, T, m]. 2 T c m elements moved.
template <typename T>
void join_columns(cudaStream_t stream, const ColumnPieces& shape, T* y, const T* x);

}  // namespace zplan::exec::cuda
