#include <fmt/format.h>

#include <algorithm>

#include "models/model_formulas.h"
#include "planner/foreign/frameworks/deepspeed_parts.h"
#include "planner/foreign/frameworks/unit_elements.h"
#include "planner/plan/limits.h"

namespace zplan {
namespace {

constexpr std::int64_t kMost16BitBytes = 2;

// A count of elements that the Trainer fills in where it is "auto".
std::int64_t elements(const KeysToPlan& to, std::string_view key, std::int64_t of_trainer) {
  if (to.config.is_auto(key) && to.around.with_trainer) return of_trainer;
  return to.config.integer(key, 0, kMostElements);
}

std::int64_t bucket_elements(const KeysToPlan& to) {
  const std::int64_t h = to.around.model.hidden;
  return elements(to, "zero_optimization.reduce_bucket_size", h * h);
}

// How many units are fetched ahead of the one that is used, none where a unit is larger.
void read_prefetch(const KeysToPlan& to) {
  const std::string_view key = "zero_optimization.stage3_prefetch_bucket_size";
  const std::int64_t unit = unit_elements(to.plan, to.around.model), h = to.around.model.hidden;
  const std::int64_t ahead = elements(to, key, 9 * h * h / 10) / unit;
  const std::int64_t live =
      to.config.integer("zero_optimization.stage3_max_live_parameters", 0, kMostElements) / unit -
      1;
  to.plan.prefetch =
      static_cast<std::int32_t>(std::clamp<std::int64_t>(std::min(ahead, live), 0, kMaxPrefetch));
  if (!to.plan.overlap.gradients) to.plan.prefetch = 0;
  if (ahead == 0 && to.plan.overlap.gradients)
    to.config.add(
        Trouble::kNoEffect, key,
        fmt::format("smaller than what is gathered at a time, {} elements: nothing is fetched "
                    "ahead",
                    unit));
}

}  // namespace

Tier deepspeed_home(const ConfigReader& config, std::string_view section) {
  const std::string path = fmt::format("zero_optimization.{}", section);
  const std::string old = section == "offload_optimizer" ? "zero_optimization.cpu_offload"
                                                         : "zero_optimization.cpu_offload_param";
  if (const auto flag = config.find(old); flag && flag->is_boolean() && flag->boolean())
    return Tier::kCpu;
  if (!config.has(path)) return Tier::kGpu;
  const std::string device = config.word(path + ".device", {"none", "cpu", "nvme"});
  return device == "none" ? Tier::kGpu : *parse_name<Tier>(device);
}

void read_deepspeed_homes(const KeysToPlan& to) {
  StatePlacement& homes = to.plan.placement;
  const Tier optimizer = deepspeed_home(to.config, "offload_optimizer"),
             params = deepspeed_home(to.config, "offload_param");
  const int stage = to.plan.zero_stage;
  if (optimizer != Tier::kGpu && stage == 0) {
    to.config.add(Trouble::kNoEffect, "zero_optimization.offload_optimizer",
                  "an optimizer is sent away at stages 1 to 3 only");
  } else if (optimizer == Tier::kNvme && stage < 3) {
    to.config.add(Trouble::kError, "zero_optimization.offload_optimizer.device",
                  "NVMe needs stage 3");
  } else {
    homes.optimizer = optimizer;
    if (stage >= 2) homes.grads = optimizer;
  }
  if (params != Tier::kGpu && stage < 3) {
    to.config.add(Trouble::kNoEffect, "zero_optimization.offload_param",
                  fmt::format("parameters are sent away at stage 3 only, this is stage {}", stage));
  } else {
    homes.params = params;
  }
  if (stage < 3 || optimizer == Tier::kGpu) return;
  homes.optimizer_near = 1 - to.config.number("zero_optimization.offload_optimizer.ratio", 0, 1);
}

void read_deepspeed_gathers(const KeysToPlan& to) {
  Plan& plan = to.plan;
  const std::string_view overlap = "zero_optimization.overlap_comm";
  if (plan.zero_stage < 3)  // gradients of whole layers where a bucket holds them
    plan.gather = unit_of_bucket(bucket_elements(to), plan, to.around.model);
  else
    plan.gather = to.config.find("zero_optimization.leaf_module.classes") ? Gather::kLayer
                                                                          : Gather::kOperator;
  plan.overlap.gradients = to.config.has(overlap) ? to.config.flag(overlap) : plan.zero_stage == 3;
  plan.overlap.parameters = plan.overlap.gradients && plan.zero_stage == 3;
  plan.prefetch = 1;
  if (plan.zero_stage == 3) read_prefetch(to);
}

// One flat buffer of gradients, two where one is filled while the other is reduced, and at stage 3
// parameters that stay gathered since they are used again soon.
Bytes deepspeed_buckets(const KeysToPlan& to) {
  const int stage = to.plan.zero_stage;
  const std::int64_t copies = to.plan.overlap.gradients && stage < 3 ? 2 : 1;
  const std::int64_t held = stage == 0 ? 0 : bucket_elements(to) * copies;
  std::int64_t live = 0;
  if (stage == 3)
    live = std::min(
        {to.config.integer("zero_optimization.stage3_max_live_parameters", 0, kMostElements),
         to.config.integer("zero_optimization.stage3_max_reuse_distance", 0, kMostElements),
         parameter_count(to.around.model) / to.plan.parallel.tp});
  return Bytes{kMost16BitBytes * (std::min(held, kMostElements / 4) + live)};
}

}  // namespace zplan
