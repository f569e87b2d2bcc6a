#include "planner/search/device_kernels.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <string>

#include "planner/core/error.h"
#include "planner/core/text.h"

namespace zplan {
namespace {

// Of a profile whose kernel set is none of ours: nothing is known of what it runs.
constexpr int kUnknown = std::numeric_limits<int>::max();

// 10 x major + minor; 0: the device is no GPU.
int capability_of(const HwProfile& node) {
  for (const KernelSet& set : kernel_sets())
    if (set.id == node.device.kernel_set) return set.capability;
  return kUnknown;
}

// "cuda" of "cuda.sm90.bf16"
std::string_view maker_of(std::string_view id) { return id.substr(0, id.find('.')); }

std::string words(int capability) { return fmt::format("{}.{}", capability / 10, capability % 10); }

}  // namespace

bool runs_on_device(const KernelSet& set, const HwProfile& node) {
  if (set.capability == 0 && set.runs_on == RunsOn::kCpu) return true;
  if (capability_of(node) == kUnknown) return true;
  return maker_of(set.id) == maker_of(node.device.kernel_set) &&
         set.capability <= capability_of(node);
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

std::optional<std::string> lacks_kernels(std::string_view id, const HwProfile& node) {
  const KernelSet& set = find_kernel_set(id);
  if (runs_on_device(set, node)) return std::nullopt;
  const int own = capability_of(node);
  const std::string_view maker = maker_of(node.device.kernel_set);
  if (own == 0 && maker != "cpu")
    return fmt::format("expected {}, which {} has, got \"{}\"", node.device.kernel_set,
                       node.device.name, id);
  if (own == 0)
    return fmt::format("expected a set for CPUs, as {} has them in place of GPUs ({}), got \"{}\"",
                       node.name, node.device.kernel_set, id);
  return fmt::format(
      "expected a set that {} has (compute capability {}: {}), got \"{}\", which needs {}",
      node.device.name, words(own), joined(sets_of_device(node), ", "), id, words(set.capability));
}

void require_on_device(std::string_view id, const HwProfile& node) {
  if (const auto lack = lacks_kernels(id, node)) throw_bad_input("--kernel-set: " + *lack);
}

}  // namespace zplan
