#include "planner/search/simplicity.h"

#include <tuple>
#include <utility>

#include "planner/search/search.h"

namespace zplan {
namespace {

int states_off(const Plan& plan) {
  const StatePlacement& at = plan.placement;
  int count = plan.offload.any() ? 1 : 0;
  for (const Tier home : {at.params, at.grads, at.optimizer, at.activations})
    count += home == Tier::kGpu ? 0 : 1;
  return count;
}

int parallelism(const Plan& plan) {
  const Parallel& shape = plan.parallel;
  int kinds = 0;
  for (const bool has : {shape.tp > 1, shape.sequence_parallel, shape.pp > 1,
                         plan.shards() != plan.replicas(), plan.partition_activations})
    kinds += has ? 1 : 0;
  return kinds;
}

int knobs(const Plan& plan) {
  int turned = static_cast<int>(plan.recompute.size()) - 1;
  for (const bool is_turned :
       {plan.effective(plan.recompute.front().mode) != Recompute::kNone, plan.unit_layers() > 1,
        plan.gather.tiles() > 1, plan.prefetch != Plan{}.prefetch, !plan.stage_layers.empty(),
        plan.checkpoint_layers > 1})
    turned += is_turned ? 1 : 0;
  for (const ModelState state : kModelStates) turned += plan.placement.near(state) ? 1 : 0;
  return turned;
}

}  // namespace

Simplicity simplicity_of(const Plan& plan) {
  return {.tiers = tiers_used(family_of(plan)),
          .states_off = states_off(plan),
          .zero_stage = plan.zero_stage,
          .parallelism = parallelism(plan),
          .knobs = knobs(plan)};
}

bool keeps_more_on_gpu(const Simplicity& one, const Simplicity& other) {
  return std::tie(one.tiers, one.states_off) < std::tie(other.tiers, other.states_off);
}

bool is_plain(const Simplicity& simplicity) {
  return simplicity.tiers == 1 && simplicity.states_off == 0 && simplicity.zero_stage <= 2;
}

std::string_view first_difference(const Simplicity& a, const Simplicity& b) {
  constexpr std::pair<int Simplicity::*, std::string_view> kParts[] = {
      {&Simplicity::tiers, "tiers"},
      {&Simplicity::states_off, "states off the GPU"},
      {&Simplicity::zero_stage, "ZeRO stage"},
      {&Simplicity::parallelism, "kinds of parallelism"},
      {&Simplicity::knobs, "knobs"}};
  for (const auto& [part, words] : kParts)
    if (a.*part != b.*part) return words;
  return {};
}

}  // namespace zplan
