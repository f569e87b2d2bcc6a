// Results of the CUDA runtime and of its libraries: anything but success becomes an Error that
// names the device of this thread and the call. Errors of kernels show at a later call, so the name
// is that of who noticed.
#pragma once

#include <cuda_runtime_api.h>

#include <string>

#include "planner/core/error.h"

namespace zplan::exec::cuda {

[[noreturn]] inline void fail_call(const char* call, const char* reason) {
  int device = 0;
  cudaGetDevice(&device);
  throw Error(ExitCode::kDevice,
              "CUDA device " + std::to_string(device) + ": " + call + ": " + reason);
}

inline void check(cudaError_t result, const char* call) {
  if (result == cudaSuccess) return;
  cudaGetLastError();  // told here, not by the next launch
  fail_call(call, cudaGetErrorString(result));
}

}  // namespace zplan::exec::cuda
