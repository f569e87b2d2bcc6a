#include "tests/gpu/target.h"

#include <algorithm>

#include "exec/cuda_plugin.h"
#include "planner/core/error.h"
#include "planner/program/kernels/kernel_set.h"
#include "tests/support/queue_device.h"

namespace zplan::gpu {
namespace {

// Of the highest capability that the device has; empty: none.
std::string best_set(int capability, DType compute,
                     LayerProducts products = LayerProducts::kAsStored) {
  const KernelSet* best = nullptr;
  for (const KernelSet& set : kernel_sets()) {
    const bool fits = set.runs_on == RunsOn::kCuda && set.compute == compute &&
                      set.layer_products == products && set.capability <= capability;
    if (fits && (best == nullptr || set.capability > best->capability)) best = &set;
  }
  return best == nullptr ? "" : std::string(best->id);
}

// Not beyond the slab: in front of the output where there is something.
void change_a_byte_beside(const exec::KernelCall& call) {
  const KernelId kernel = call.node->kernel;
  if (kernel != KernelId::kResidualAdd && kernel != KernelId::kBiasResidualAdd) return;
  const exec::Operand& output = call.operands.back();
  std::byte* byte =
      output.offset.value > 0 ? output.data - 1 : output.data + output.view->bytes().value;
  *byte ^= std::byte{1};
}

}  // namespace

std::optional<Target> find_target(TargetKind kind, std::string& why_not) {
  Target target;
  if (kind != TargetKind::kGpu) {
    target.name = "CPU with queues";
    target.fp32 = "cpu.f32.fused";
    target.bf16 = "cpu.bf16";
    target.fp16 = "cpu.fp16";
    exec::QueueDeviceOptions options;
    if (kind == TargetKind::kBroken) options.before_kernel = change_a_byte_beside;
    target.device = exec::make_queue_device(options);
    return target;
  }
  // The plug-in first: it sets what the driver reads when it starts.
  try {
    target.device = exec::load_cuda_device({});
  } catch (const Error&) {
    if (!exec::Driver::open(why_not)) return std::nullopt;
    throw;  // there is a device, but no way to it
  }
  target.driver = exec::Driver::open(why_not);
  if (!target.driver) return std::nullopt;
  target.name = target.driver->device_name();
  target.fp32 = best_set(target.driver->capability(), DType::kF32);
  target.bf16 = best_set(target.driver->capability(), DType::kBf16);
  target.fp16 = best_set(target.driver->capability(), DType::kF16);
  target.fp8 = best_set(target.driver->capability(), DType::kBf16, LayerProducts::kFp8);
  return target;
}

}  // namespace zplan::gpu
