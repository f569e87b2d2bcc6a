// Results of the CUDA runtime: anything but success becomes an Error that names the device of this
// thread and the call. Errors of kernels show at a later call, so the name is that of who noticed.
#pragma once

#include <cuda_runtime_api.h>

#include <string>

#include "planner/core/error.h"

namespace zplan::exec::cuda {

inline void check(cudaError_t result, const char* call) {
  if (result == cudaSuccess) return;
  int device = 0;
  cudaGetDevice(&device);
  cudaGetLastError();  // told here, not by the next launch
  throw Error(ExitCode::kDevice, "CUDA device " + std::to_string(device) + ": " + call + ": " +
                                     cudaGetErrorString(result));
}

}  // namespace zplan::exec::cuda
