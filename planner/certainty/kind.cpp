#include "planner/certainty/kind.h"

#include <algorithm>
#include <vector>

#include "planner/cost/kernel_time.h"
#include "planner/program/kernels/kernel_set.h"

namespace zplan {
namespace {

std::string format_of(const std::string& kernel_set) {
  const KernelSet& set = find_kernel_set(kernel_set);
  return set.layer_products == LayerProducts::kFp8 ? std::string(set.codes.name)
                                                   : std::string(peak_name(set.compute));
}

bool on(const Plan& plan, Tier tier) {
  const std::vector<Tier> homes = plan.placement.tiers();
  return std::find(homes.begin(), homes.end(), tier) != homes.end();
}

bool recomputes(const Plan& plan) {
  return std::any_of(plan.recompute.begin(), plan.recompute.end(), [&](const RecomputeRun& run) {
    return plan.effective(run.mode) != Recompute::kNone;
  });
}

// The name without its memory, which stands last: "-40GB", " 24GB".
std::string_view without_memory(std::string_view name) {
  constexpr std::string_view kUnit = "GB";
  if (!name.ends_with(kUnit)) return name;
  const std::size_t digit = name.find_last_not_of("0123456789", name.size() - kUnit.size() - 1);
  return digit == name.npos || digit + 1 == name.size() - kUnit.size() ? name
                                                                       : name.substr(0, digit);
}

}  // namespace

bool same_class(std::string_view device, std::string_view other) {
  return without_memory(device) == without_memory(other);
}

Kind kind_of(const Plan& plan, const Cluster& cluster) {
  const Parallel& ranks = plan.parallel;
  Kind kind{
      cluster.node.device.name, format_of(plan.kernel_set), static_cast<int>(ranks.ranks()), {}};
  const auto add = [&](bool has, std::string_view feature) {
    if (has) kind.features.emplace_back(feature);
  };
  add(ranks.tp > 1, "tensor parallelism");
  add(plan.exchange_ranks() > 1, "context parallelism");
  add(ranks.ring > 1, "ring attention");
  add(ranks.sequence_parallel, "sequence parallelism");
  add(ranks.pp > 1, "a pipeline");
  add(ranks.dp > 1, "data parallelism");
  add(plan.zero_stage == 1, "ZeRO 1");
  add(plan.zero_stage == 2, "ZeRO 2");
  add(plan.zero_stage == 3, "ZeRO 3");
  add(recomputes(plan), "recomputation");
  add(on(plan, Tier::kCpu) || plan.offload.any(), kStatesOnCpu);
  add(on(plan, Tier::kNvme), kStatesOnDrives);
  add(plan.delayed_update, "delayed updates");
  return kind;
}

}  // namespace zplan
