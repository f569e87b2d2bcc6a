// Time of zplan's own fused attention for GPUs (exec/cuda/kernels/attention_*.cuh), which serves
// every head that cuDNN does not take and every device without its kernels. It multiplies on the
// units for vectors, in float32 whatever the format of its operands, and reads them from tiles in
// shared memory: what bounds it are these loads.
//
//   time  = loads / (32 words per clock [CUDA-Guide] x SMs x clock) x factor of the stack
//   loads = b a pairs D x loads per multiply-add, summed over the products of the pass [derived]
//   clock = peak(fp32) / (2 x units per SM x SMs)
//
// D is the tile's width: 64, 128 or 256, the least that holds the head. A thread holds P x P scores
// and P x C elements of a sum, so that a product of two tiles of rows loads 2 / P words per
// multiply-add and one with scores 1 / P + 1 / C. Forward has one of each; backward four and three,
// as dq and dk with dv are passes of their own that compute the scores again.
//
// The stack's factors are measured on an H100 with tiles of 128 (reports/gpu_attention_scratch.md);
// other widths and devices follow from the loads. Left out: that few warps hide less of the latency
// where tiles are wide, what a diagonal tile computes in vain.
#pragma once

#include <cstdint>
#include <optional>

#include "hwprofiles/hw_profile.h"
#include "planner/cost/reliance.h"
#include "planner/program/kernels/kernel_table.h"

namespace zplan {

// Words that the threads of both kernels load from shared memory, for the work as a whole.
double shared_loads(const AttentionWork& work);

// Words of shared memory that the device loads in a second; nothing: its clock is not known.
std::optional<double> shared_load_rate(const DeviceProfile& device);

// Nothing: the stack has no such kernels, or the device is not known well enough.
std::optional<RestingTime> vector_attention_time(const AttentionWork& work,
                                                 const DeviceProfile& device,
                                                 const StackRates& stack);

}  // namespace zplan
