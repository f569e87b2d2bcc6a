// The CUDA backend is a shared library of its own, bin/libzplan_cuda.so, that is loaded when a run
// asks for it: planning needs neither CUDA's libraries nor a driver. It lies beside the program;
// the environment variable ZPLAN_CUDA_PLUGIN names another file.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "exec/comm/queued_comm.h"
#include "exec/device.h"
#include "exec/queues.h"

namespace zplan::exec {

struct CudaDeviceOptions {
  int local_rank = 0;  // index of the device, where several are visible
};

struct NcclOptions {
  const Job* job = nullptr;
  std::int32_t rank = 0;  // of this process, which has one
  // Called by all processes in the same order: the parts of all, by rank.
  std::function<std::vector<std::string>(const std::string& own)> exchange;
  // For partners, at the start and in each operation.
  std::chrono::seconds deadline{600};
};

// Both throw Error(kDevice) with one line: no plug-in, a library it needs is missing, no driver or
// one older than the toolkit, no device.
std::unique_ptr<Device> load_cuda_device(const CudaDeviceOptions& options);
// Called by all processes at once, each with the queues of its rank on its CUDA device. Destroy the
// queues first: communicators wait for the graphs that use them to go.
std::unique_ptr<QueuedComm> load_nccl_comm(Queues& queues, const NcclOptions& options);

}  // namespace zplan::exec
