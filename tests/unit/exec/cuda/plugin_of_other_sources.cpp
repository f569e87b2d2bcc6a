// A plug-in that another zplan would load.
#include "exec/cuda/plugin.h"

const char* zplan_cuda_interface() { return "of other headers"; }

zplan::exec::Device* zplan_make_cuda_device(const zplan::exec::CudaDeviceOptions&) {
  return nullptr;
}
