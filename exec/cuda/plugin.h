// What libzplan_cuda.so offers to the program that loads it (cuda_plugin.h). The caller owns what
// is returned. Both throw Error(kDevice).
#pragma once

#include "exec/cuda_plugin.h"

extern "C" {
zplan::exec::Device* zplan_make_cuda_device(const zplan::exec::CudaDeviceOptions& options);
zplan::exec::QueuedComm* zplan_make_nccl_comm(zplan::exec::Queues& queues,
                                              const zplan::exec::NcclOptions& options);
}
