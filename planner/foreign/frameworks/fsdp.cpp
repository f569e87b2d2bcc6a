#include "planner/foreign/frameworks/fsdp.h"

#include <fmt/format.h>

#include "planner/program/kernels/newest_kernel_set.h"

namespace zplan {

void apply_fsdp(const FsdpSettings& settings, const DeviceProfile& device, Plan& plan,
                ConfigReader& config) {
  const int capability = find_kernel_set(device.kernel_set).capability;
  const KernelSet* set =
      newest_kernel_set(capability, settings.compute, LayerProducts::kAsStored, true);
  if (set == nullptr) {
    config.add(Trouble::kNotModelled, "",
               fmt::format("no kernels in {} for {}; those of {} are taken", name(settings.compute),
                           device.name, device.kernel_set));
    set = &find_kernel_set(device.kernel_set);
  }
  plan.kernel_set = set->id;
  plan.loss_scaling = set->loss_scaling;
  const bool is_sharded = settings.shard > 1;
  plan.zero_stage = !is_sharded ? 0 : settings.reshards ? 3 : 2;
  if (is_sharded && settings.replicate > 1)
    plan.parallel.shards = static_cast<std::int32_t>(settings.shard);
  plan.precision = default_recipe(plan.kernel_set);
  const std::string_view recipe = settings.reduces_in_fp32 ? "fsdp" : "fsdp-pure";
  if (const auto found = find_recipe(recipe, plan.kernel_set); found && plan.zero_stage == 3)
    plan.precision = *found;
  plan.gather = Gather::kLayer;
  plan.prefetch = 1;
  if (!settings.offloads) return;
  plan.placement.optimizer = plan.placement.grads = Tier::kCpu;
  if (plan.zero_stage == 3) plan.placement.params = Tier::kCpu;
}

}  // namespace zplan
