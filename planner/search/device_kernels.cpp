#include "planner/search/device_kernels.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <string>

#include "planner/core/error.h"

namespace zplan {
namespace {

// 10 x major + minor; 0: the device is no GPU.
int capability_of(const HwProfile& node) {
  for (const KernelSet& set : kernel_sets())
    if (set.id == node.device.kernel_set) return set.capability;
  return std::numeric_limits<int>::max();
}

std::string words(int capability) { return fmt::format("{}.{}", capability / 10, capability % 10); }

}  // namespace

bool runs_on_device(const KernelSet& set, const HwProfile& node) {
  return set.capability <= capability_of(node);
}

std::vector<std::string_view> sets_of_device(const HwProfile& node) {
  std::vector<const KernelSet*> found;
  for (const KernelSet& set : kernel_sets())
    if (set.capability > 0 && runs_on_device(set, node)) found.push_back(&set);
  std::stable_sort(found.begin(), found.end(), [](const KernelSet* a, const KernelSet* b) {
    return a->capability > b->capability;
  });
  std::vector<std::string_view> ids;
  for (const KernelSet* set : found) ids.push_back(set->id);
  return ids;
}

void require_on_device(std::string_view id, const HwProfile& node) {
  const KernelSet& set = find_kernel_set(id);
  if (runs_on_device(set, node)) return;
  const int own = capability_of(node);
  if (own == 0)
    throw_bad_input(
        fmt::format("--kernel-set: expected a set for CPUs, as {} has them in place of "
                    "GPUs ({}), got \"{}\"",
                    node.name, node.device.kernel_set, id));
  throw_bad_input(
      fmt::format("--kernel-set: expected a set that {} has (compute capability {}: {}), got "
                  "\"{}\", which needs {}",
                  node.device.name, words(own), fmt::join(sets_of_device(node), ", "), id,
                  words(set.capability)));
}

}  // namespace zplan
