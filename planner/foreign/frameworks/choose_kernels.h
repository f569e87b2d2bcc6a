// The kernels that a framework computes with on a device.
#pragma once

#include "planner/foreign/frameworks/config_reader.h"
#include "planner/program/kernels/kernel_set.h"

namespace zplan {

// Sets the newest fused kernel set of the device for these formats, with its usual recipe; `codes`:
// what products cast their operands to, empty: nothing. Where there is none the device's own is
// taken, and said to be.
const KernelSet& choose_kernels(DType compute, std::string_view codes, const DeviceProfile& device,
                                Plan& plan, ConfigReader& config);

// Whether the framework drops out: the plan does where its kernels have it, else that is found.
void set_dropout(bool drops, Plan& plan, ConfigReader& config);

// The same where the model's own file says it.
void take_dropout(const Pins& asked, Plan& plan, ConfigReader& config);

}  // namespace zplan
