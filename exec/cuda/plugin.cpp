#include "exec/cuda/plugin.h"

#include "exec/cuda/cuda_device.h"
#include "exec/interface_hash.h"

const char* zplan_cuda_interface() { return zplan::exec::interface_hash(); }

zplan::exec::Device* zplan_make_cuda_device(const zplan::exec::CudaDeviceOptions& options) {
  return new zplan::exec::cuda::CudaDevice(options);
}
