// What libzplan_cuda.so offers to the program that loads it (cuda_plugin.h). The caller owns what
// is returned. Throws Error(kDevice).
#pragma once

#include "exec/cuda_plugin.h"

// interface_hash() of what it was compiled with.
extern "C" const char* zplan_cuda_interface();

extern "C" zplan::exec::Device* zplan_make_cuda_device(
    const zplan::exec::CudaDeviceOptions& options);
