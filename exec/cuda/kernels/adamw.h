// AdamW on a flat range of parameters; formula and rounding stand in exec/cpu/kernels/optimizer.h
// [Loshchilov19 Algorithm 2]. The gradient is unscaled and clipped, the states updated and the
// parameters for compute written in one pass. States of 16 bits are rounded stochastically
// [Gupta15]. All that changes from step to step is read from device memory.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "exec/kernels/arguments.h"
#include "planner/core/philox.h"
#include "planner/program/job/ops.h"

namespace zplan::exec::cuda {

// Arithmetic in float. 8 n elements moved with param.
void adamw(cudaStream_t stream, const Adamw& x);

}  // namespace zplan::exec::cuda
