#include "exec/cuda/driver_api.h"

#include <cuda_runtime.h>

#include <string>

#include "exec/cuda/check.h"

namespace zplan::exec::cuda {
namespace {

// The functions' forms as of CUDA 11.7, which all later drivers have; cudaTypedefs.h names them.
constexpr unsigned kVersion = 11070;

template <typename Function>
void find(Function& function, const char* name) {
  void* address = nullptr;
  cudaDriverEntryPointQueryResult status{};
#if CUDART_VERSION >= 12050
  check(cudaGetDriverEntryPointByVersion(name, &address, kVersion, cudaEnableDefault, &status),
        name);
#else
  check(cudaGetDriverEntryPoint(name, &address, cudaEnableDefault, &status), name);
#endif
  if (status != cudaDriverEntryPointSuccess || address == nullptr)
    throw Error(ExitCode::kDevice, std::string("the NVIDIA driver lacks ") + name);
  function = reinterpret_cast<Function>(address);
}

}  // namespace

DriverApi find_driver_api() {
  DriverApi api;
  find(api.device_attribute, "cuDeviceGetAttribute");
  find(api.fill_halves, "cuMemsetD16");
  find(api.write_value, "cuStreamWriteValue64");
  find(api.wait_value, "cuStreamWaitValue64");
  return api;
}

// The runtime's error codes are the driver's since CUDA 10.1.
void check_driver(CUresult result, const char* call) {
  check(static_cast<cudaError_t>(result), call);
}

}  // namespace zplan::exec::cuda
