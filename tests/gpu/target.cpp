#include "tests/gpu/target.h"

#include <algorithm>

#include "planner/program/kernel_set.h"
#include "tests/support/queue_device.h"

namespace zplan::gpu {
namespace {

// Of the highest capability that the device has; empty: none.
std::string best_set(int capability, DType compute) {
  const KernelSet* best = nullptr;
  for (const KernelSet& set : kernel_sets()) {
    const bool fits =
        set.runs_on == RunsOn::kCuda && set.compute == compute && set.capability <= capability;
    if (fits && (best == nullptr || set.capability > best->capability)) best = &set;
  }
  return best == nullptr ? "" : std::string(best->id);
}

}  // namespace

std::optional<Target> find_target(bool queues, std::string& why_not) {
  Target target;
  if (queues) {
    target.name = "CPU with queues";
    target.fp32 = "cpu.f32";
    target.bf16 = "cpu.bf16";
    target.fp16 = "cpu.fp16";
    target.device = exec::make_queue_device();
    return target;
  }
  target.driver = Driver::open(why_not);
  if (!target.driver) return std::nullopt;
  target.name = target.driver->device_name();
  target.fp32 = best_set(target.driver->capability(), DType::kF32);
  target.bf16 = best_set(target.driver->capability(), DType::kBf16);
  target.fp16 = best_set(target.driver->capability(), DType::kF16);
  why_not = "this build has no CUDA plug-in";
  return std::nullopt;
}

}  // namespace zplan::gpu
