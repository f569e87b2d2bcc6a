#include "exec/cuda/image_probe.h"

#include <cuda_runtime.h>

namespace zplan::exec::cuda {
namespace {

__global__ void probe() {}

}  // namespace

bool has_kernels_for_device() {
  cudaFuncAttributes attributes{};
  const bool found = cudaFuncGetAttributes(&attributes, probe) == cudaSuccess;
  cudaGetLastError();  // the answer is no; that is no failure
  return found;
}

}  // namespace zplan::exec::cuda
