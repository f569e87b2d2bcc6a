#include "exec/cuda/plugin.h"

#include "exec/cuda/cuda_device.h"

zplan::exec::Device* zplan_make_cuda_device(const zplan::exec::CudaDeviceOptions& options) {
  return new zplan::exec::cuda::CudaDevice(options);
}
