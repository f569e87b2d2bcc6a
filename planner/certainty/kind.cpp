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

// Chips by their makers' names. Those of servers and of workstations are told apart where their
// multiprocessors differ, as GA100 and GA102 do.
struct Chip {
  std::string_view name, generation;
};
constexpr Chip kChips[] = {
    {"V100", "Volta"},       {"A100", "GA100"},      {"A800", "GA100"},
    {"RTX 3090", "GA102"},   {"RTX A6000", "GA102"}, {"A40 ", "GA102"},
    {"A10G", "GA102"},       {"RTX 4090", "Ada"},    {"L40S", "Ada"},
    {"L4 ", "Ada"},          {"H100", "Hopper"},     {"H200", "Hopper"},
    {"H800", "Hopper"},      {"H20-", "Hopper"},     {"B200", "Blackwell"},
    {"B300", "Blackwell"},   {"RTX 5090", "GB202"},  {"RTX PRO 6000 Blackwell", "GB202"},
    {"TITAN RTX", "Turing"}, {"T4 ", "Turing"},
};

std::string_view generation_of(std::string_view device) {
  for (const Chip& chip : kChips)
    if (device.find(chip.name) != device.npos) return chip.generation;
  return without_memory(device);
}

}  // namespace

bool same_generation(std::string_view device, std::string_view other) {
  return generation_of(device) == generation_of(other);
}

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
