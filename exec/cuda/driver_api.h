// Functions of the driver that the runtime library does not offer. They are found at run time: a
// program linked with libcuda itself does not start on a machine without a driver.
#pragma once

#include <cudaTypedefs.h>

namespace zplan::exec::cuda {

struct DriverApi {
  PFN_cuDeviceGetAttribute_v2000 device_attribute = nullptr;
  PFN_cuMemsetD16_v3020 fill_halves = nullptr;
  PFN_cuStreamWriteValue64_v11070 write_value = nullptr;
  PFN_cuStreamWaitValue64_v11070 wait_value = nullptr;
};

// Throws Error(kDevice) naming the function that the driver lacks.
DriverApi find_driver_api();

// As for results of the runtime (check.h).
void check_driver(CUresult result, const char* call);

inline CUdeviceptr driver_address(const void* memory) {
  return reinterpret_cast<CUdeviceptr>(memory);
}

}  // namespace zplan::exec::cuda
