// Device code of partials.h.
#pragma once

#include "exec/cuda/kernels/device_support.cuh"

namespace zplan::exec::cuda {

// One block.
__global__ void add_partials_kernel(double* sum, const double* partials, std::int64_t n,
                                    double scale) {
  double own = 0;
  for (std::int64_t i = threadIdx.x; i < n; i += blockDim.x) own += partials[i];
  const double all = block_sum(own);
  if (threadIdx.x == 0) *sum += scale * all;
}

}  // namespace zplan::exec::cuda
