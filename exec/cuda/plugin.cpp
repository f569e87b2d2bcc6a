#include "exec/cuda/plugin.h"

#include "exec/cuda/cuda_device.h"
#include "planner/core/error.h"
#ifdef ZPLAN_HAVE_NCCL
#include "exec/cuda/nccl_comm.h"
#endif

using namespace zplan;
using namespace zplan::exec;

Device* zplan_make_cuda_device(const CudaDeviceOptions& options) {
  return new cuda::CudaDevice(options);
}

#ifdef ZPLAN_HAVE_NCCL
QueuedComm* zplan_make_nccl_comm(Queues& queues, const NcclOptions& options) {
  return new cuda::NcclComm(dynamic_cast<cuda::CudaQueues&>(queues), options);
}
#else
QueuedComm* zplan_make_nccl_comm(Queues&, const NcclOptions&) {
  throw Error(ExitCode::kDevice,
              "this CUDA plug-in was built without NCCL, which ranks in several processes need");
}
#endif
