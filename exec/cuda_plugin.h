// The CUDA backend is a shared library of its own, bin/libzplan_cuda.so, that is loaded when a run
// asks for it: planning needs neither CUDA's libraries nor a driver. It lies beside the program or,
// installed, in ../lib/zplan from there; the environment variable ZPLAN_CUDA_PLUGIN names another
// file.
#pragma once

#include <memory>
#include <string>

#include "exec/device.h"

namespace zplan::exec {

struct CudaDeviceOptions {
  int local_rank = 0;           // index of the device, where several are visible
  std::string system = "/sys";  // where Linux tells of the device
};

// Where it lies, or should lie.
std::string cuda_plugin_path();

// Throws Error(kDevice) with one line: no plug-in, one of other sources, a library it needs is
// missing, no driver or one older than the toolkit, no device.
std::unique_ptr<Device> load_cuda_device(const CudaDeviceOptions& options);

}  // namespace zplan::exec
