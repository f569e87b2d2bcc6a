// Which kernel sets a node's device can run. A profile names the set that its device runs unless
// told otherwise, and so its compute capability: a device runs the sets of its capability and of
// smaller ones (planner/program/kernels/kernel_set.cpp). Sets for CPUs run on the host of any node,
// to check a plan; a profile whose set is not built in says nothing.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "hwprofiles/hw_profile.h"
#include "planner/program/kernels/kernel_set.h"

namespace zplan {

bool runs_on_device(const KernelSet& set, const HwProfile& node);
// The sets of CUDA that the device runs, the newest first.
std::vector<std::string_view> sets_of_device(const HwProfile& node);

// "expected .., got ..", naming them, when the device lacks the set; unknown sets are found out
// elsewhere.
std::optional<std::string> lacks_kernels(std::string_view set, const HwProfile& node);
// Throws Error of the option --kernel-set then.
void require_on_device(std::string_view set, const HwProfile& node);

}  // namespace zplan
