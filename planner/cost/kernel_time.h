// Time of a kernel alone, from its demand (kernel_table.h) and the device or host that runs it.
//
//   gemm       max(flop / (peak x gemm_efficiency), stream) + gemm_overhead
//   attention  max(flop / (peak x attention_efficiency), stream)
//   other      stream = bytes / (memory_bandwidth x memory_efficiency)
//   host       bytes at the rate of the host's memory, at most as fast as the cores compute:
//              bytes x (core_flops x cores / ranks of the node) / flop
// The peak is that of the first operand's type. [derived] a roofline with two slopes; launches are
// the simulator's. Left out: shape-dependent efficiency, clocks, slowdown by concurrent transfers.
#pragma once

#include <string_view>

#include "hwprofiles/hw_profile.h"
#include "planner/core/units.h"
#include "planner/program/kernel_table.h"
#include "planner/program/program.h"

namespace zplan {

// The profile's name of an element type: "fp16" for kF16.
std::string_view peak_name(DType dtype);

Seconds stream_time(Bytes bytes, const DeviceProfile& device);
Seconds device_time(const Demand& demand, DType compute, const DeviceProfile& device);

// Greatest rate in bytes of the kernel per second that the share of one of `ranks` ranks in the
// host's cores sustains; infinite for kernels without flop.
BytesPerSecond core_rate(const Demand& demand, const HostProfile& host, int ranks);

}  // namespace zplan
