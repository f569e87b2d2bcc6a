#include <fmt/format.h>

#include "planner/foreign/frameworks/deepspeed_parts.h"
#include "planner/foreign/frameworks/unit_elements.h"

namespace zplan {
namespace {

// Keys of zero_optimization that count at some stages only: from the first to the last.
struct StageRule {
  std::string_view key;
  int first, last;
  std::string_view message;
};
constexpr StageRule kStageRules[] = {
    {"allgather_bucket_size", 0, 2, "of stages 1 and 2 only"},
    {"stage3_prefetch_bucket_size", 3, 3, "of stage 3 only"},
    {"stage3_max_live_parameters", 3, 3, "of stage 3 only"},
    {"stage3_max_reuse_distance", 3, 3, "of stage 3 only"},
    {"stage3_param_persistence_threshold", 3, 3, "of stage 3 only"}};

void check_path(const KeysToPlan& to, std::string_view section) {
  if (deepspeed_home(to.config, section) == Tier::kNvme &&
      !to.config.has(fmt::format("zero_optimization.{}.nvme_path", section)))
    to.config.add(Trouble::kError, fmt::format("zero_optimization.{}.device", section),
                  "nvme needs nvme_path beside it");
}

// The counts that are left "auto" without somebody who fills them in.
void check_counts(const KeysToPlan& to) {
  const std::string_view key = "zero_optimization.reduce_bucket_size";
  if (to.config.is_auto(key) && !to.around.with_trainer)
    to.config.add(Trouble::kNoEffect, key,
                  "\"auto\" means DeepSpeed's default without Hugging Face's Trainer");
}

// A buffer on the way to NVMe holds the shard of any parameter.
void check_buffer(const KeysToPlan& to) {
  if (to.plan.placement.params != Tier::kNvme) return;
  const std::string_view key = "zero_optimization.offload_param.buffer_size";
  const std::int64_t size = to.config.integer(key, 0, kMostElements), shards = to.plan.shards();
  const std::int64_t largest = (largest_parameter(to.plan, to.around.model) + shards - 1) / shards;
  if (size < largest)
    to.config.add(
        Trouble::kError, key,
        fmt::format("{} elements hold no shard of the largest parameter, {}", size, largest));
}

}  // namespace

void check_deepspeed_rules(const KeysToPlan& to) {
  check_path(to, "offload_optimizer");
  check_path(to, "offload_param");
  check_counts(to);
  check_buffer(to);
  if (to.config.has("aio.thread_count"))
    to.config.add(Trouble::kNoEffect, "aio.thread_count",
                  "called intra_op_parallelism since 0.16.4");
  for (const StageRule& rule : kStageRules) {
    const bool counts = rule.first <= to.plan.zero_stage && to.plan.zero_stage <= rule.last;
    const std::string key = fmt::format("zero_optimization.{}", rule.key);
    if (!counts && to.config.has(key))
      to.config.add(Trouble::kNoEffect, key, std::string(rule.message));
  }
}

}  // namespace zplan
