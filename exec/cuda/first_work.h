// The first work of streams, given by one thread. A driver makes the channels of a stream when it
// is first used; where the threads of several ranks did that at once, a stream could stay that
// never ran what it was given: on driver 580.159, 29 of 195 runs of 2 to 4 ranks on one device
// stood still, and none of 365 where streams had worked before (reports/gpu_shared_device.md).
#pragma once

#include <cuda_runtime.h>

#include "exec/cuda/driver_api.h"
#include "exec/cuda/handles.h"

namespace zplan::exec::cuda {

class FirstWork {
 public:
  // The device is chosen (cudaSetDevice).
  explicit FirstWork(const DriverApi& driver);

  // Returns when the stream has done each kind of thing that it will be given.
  void give(cudaStream_t stream) const;

 private:
  void queue(cudaStream_t stream) const;

  DriverApi driver_;
  DeviceMemory device_;
  PinnedMemory host_;
  EventHandle event_;
};

}  // namespace zplan::exec::cuda
