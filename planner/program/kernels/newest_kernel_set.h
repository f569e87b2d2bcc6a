// Which kernel set software of the day computes with on a device.
#pragma once

#include "planner/program/kernels/kernel_set.h"

namespace zplan {

// The newest that a device of this compute capability runs, for a format of activations and one of
// the layers' products, of codes by its name. Null: there is none.
const KernelSet* newest_kernel_set(int capability, DType compute, LayerProducts products,
                                   bool fused_attention, std::string_view codes = "fp8");

}  // namespace zplan
