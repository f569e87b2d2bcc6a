// Whether kernels of this build run on a device.
#pragma once

namespace zplan::exec::cuda {

// Of the thread's device: whether the build holds machine code for it, or code that the driver can
// translate.
bool has_kernels_for_device();

}  // namespace zplan::exec::cuda
