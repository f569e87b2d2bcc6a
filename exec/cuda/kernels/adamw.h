// AdamW on a flat range of parameters; formula and rounding stand in exec/cpu/kernels/optimizer.h
// [Loshchilov19 Algorithm 2]. The gradient is unscaled and clipped, the states updated and the
// parameters for compute written in one pass. States of 16 bits are rounded stochastically
// [Gupta15]. All that changes from step to step is read from device memory.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "planner/core/philox.h"
#include "planner/program/ops.h"

namespace zplan::exec::cuda {

// Elements of float32, bf16 or fp16.
struct Elements {
  void* data;  // null: none
  DType type;
};

struct Adamw {
  Elements master;        // [n], updated
  Elements m;             // [n], updated
  Elements v;             // [n], updated; of the type of m
  Elements grad;          // [n], only read
  Elements param;         // [n], overwritten with the new master; null or the master: nothing
  const double* scalars;  // [11] (step_scalars.h)
  const double* clip;     // [2]; a negative factor or an inactive step skips the update
  std::int64_t n;
  std::int64_t flat_offset;     // place of element 0 in its flat unit
  std::int64_t decay_elements;  // the first elements of the flat unit, the ones that decay
  PhiloxKey key;                // of the random bits
  std::uint32_t place;          // which unit, layer and tile
};

// Arithmetic in float. 8 n elements moved with param.
void adamw(cudaStream_t stream, const Adamw& x);

}  // namespace zplan::exec::cuda
