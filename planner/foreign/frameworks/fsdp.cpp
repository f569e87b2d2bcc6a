#include "planner/foreign/frameworks/fsdp.h"

#include <fmt/format.h>

#include <algorithm>

#include "planner/foreign/frameworks/choose_kernels.h"

namespace zplan {

void fit_shards(FsdpSettings& settings, std::int64_t replicas, std::string_view key,
                ConfigReader& config) {
  if (settings.replicate * settings.shard == replicas) return;
  const std::int64_t fits = std::max<std::int64_t>(replicas / settings.replicate, 1);
  config.add(Trouble::kError, key,
             fmt::format("{} x {} are not the {} replicas that the ranks make; {} shards are taken "
                         "here",
                         settings.replicate, settings.shard, replicas, fits));
  settings.shard = fits;
}

void apply_fsdp(const FsdpSettings& settings, const DeviceProfile& device, Plan& plan,
                ConfigReader& config) {
  plan.loss_scaling = choose_kernels(settings.compute, "", device, plan, config).loss_scaling;
  const bool is_sharded = settings.shard > 1;
  plan.zero_stage = !is_sharded ? 0 : settings.reshards ? 3 : 2;
  if (is_sharded && settings.replicate > 1)
    plan.parallel.shards = static_cast<std::int32_t>(settings.shard);
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
