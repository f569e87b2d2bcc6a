// Time of a kernel alone, from its demand (kernel_table.h), the device or host that runs it and the
// stack whose kernel it is (hwprofiles/stack.h).
//
//   product    by the device's table or tiles (hwprofiles/kernel_tables.h) x what training takes
//              over a burst by its phase, where that was measured, x sustained, not below stream;
//              in fp8 the casts of its operands on top, for a stack that has them apart
//              (fp8_casts); where the profile has no SMs: max(flop / (peak x gemm_efficiency),
//              stream)
//   attention  fused: by the device's table, with a mask or without, forward or backward
//              (hwprofiles/attention_tables.h) x share of the pairs that see each other; without a
//              table flop / (peak x attention_efficiency); of heads that no kernel for tensor cores
//              takes what the stack's own kernels need, if it has some (vector_attention.h)
//   other      stream = bytes / (memory_bandwidth x memory_efficiency)
//   host       bytes at the rate of the host's memory, at most as fast as the cores compute:
//              bytes x (core_flops x cores / ranks of the node) / flop
// Every kernel of a device with SMs takes gemm_overhead on top, products once. The stack's factors
// multiply times of products and attention, and the traffic of the others.
// Launches and what runs beside a kernel are the simulator's.
#pragma once

#include <string_view>

#include "hwprofiles/hw_profile.h"
#include "planner/core/units.h"
#include "planner/cost/reliance.h"
#include "planner/program/job/job.h"
#include "planner/program/job/program.h"
#include "planner/program/kernels/kernel_set.h"
#include "planner/program/kernels/kernel_table.h"

namespace zplan {

// The profile's name of an element type: "fp16" for kF16.
std::string_view peak_name(DType dtype);

RestingTime stream_time(Bytes bytes, const DeviceProfile& device);

// `format`: in which products and attention compute.
RestingTime kernel_time(KernelId kernel, const Demand& demand, std::string_view format,
                        const DeviceProfile& device, const StackRates& stack);

// A kernel beside a product moves these bytes (epilogue_bytes()); 0 bytes: there is none.
RestingTime epilogue_time(Bytes bytes, const DeviceProfile& device, const StackRates& stack);

// The set of a job's kernels; none: one that is not built in.
const KernelSet* built_in_kernels(const Job& job);

// The format in which the set computes a kernel of a program.
std::string_view format_of(const Program& program, const Node& node, const KernelSet* kernels);

// Whether the LM head's products have an odd width: nobody pads the vocabulary of one rank. The
// loss knows how much of it is real (kernel_table.h).
bool has_unaligned_head(const Program& program);

// Of a kernel on a GPU lane of a program, in its format.
RestingTime device_time(const Program& program, const Node& node, const Demand& demand,
                        const KernelSet* kernels, bool unaligned_head, const Cluster& cluster);

// Greatest rate in bytes of the kernel per second that the share of one of `ranks` ranks in the
// host's cores sustains; infinite for kernels without flop.
BytesPerSecond core_rate(const Demand& demand, const HostProfile& host, int ranks);

}  // namespace zplan
