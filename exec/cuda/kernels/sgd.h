// SGD, with momentum or without, on a flat range of parameters; formula and rounding stand in
// exec/cpu/kernels/optimizer.h [PyTorch]. All that changes from step to step is read from device
// memory.
#pragma once

#include <cuda_runtime_api.h>

#include "exec/kernels/arguments.h"

namespace zplan::exec::cuda {

// Arithmetic in float. 4 n elements moved with param, 6 n with momentum.
void sgd(cudaStream_t stream, const Sgd& x);

}  // namespace zplan::exec::cuda
