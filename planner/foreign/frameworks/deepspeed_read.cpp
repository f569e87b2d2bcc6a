#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "planner/core/text.h"
#include "planner/foreign/frameworks/choose_kernels.h"
#include "planner/foreign/frameworks/common_rules.h"
#include "planner/foreign/frameworks/deepspeed.h"
#include "planner/foreign/frameworks/deepspeed_parts.h"
#include "planner/foreign/frameworks/trained_keys.h"
#include "planner/plan/limits.h"

namespace zplan {
namespace {

void read_ranks(const KeysToPlan& to) {
  Parallel& p = to.plan.parallel;
  p.tp = static_cast<std::int32_t>(
      std::max<std::int64_t>(to.config.integer("tensor_parallel.autotp_size", 0, kMaxTp), 1));
  p.cp = static_cast<std::int32_t>(to.config.integer("sequence_parallel_size", 1, kMaxDp));
  divide_ranks(to, p.tp > 1 ? "tensor_parallel.autotp_size" : "sequence_parallel_size");
}

void read_stage(const KeysToPlan& to) {
  const std::string_view shards = "zero_optimization.zero_hpz_partition_size";
  to.plan.zero_stage =
      static_cast<std::int32_t>(to.config.integer("zero_optimization.stage", 0, 3));
  const std::int64_t secondary = to.config.integer(shards, 0, kMaxDp);
  if (secondary <= 1) return;
  if (to.plan.zero_stage == 3)
    to.plan.secondary = static_cast<std::int32_t>(secondary);
  else
    to.config.add(Trouble::kNoEffect, shards, "secondary shards are of stage 3");
}

void read_recomputation(const KeysToPlan& to) {
  if (to.around.asked.has("/recompute")) to.plan.recompute = to.around.asked.values().recompute;
  const std::string_view key = "activation_checkpointing.cpu_checkpointing";
  if (!to.config.has("activation_checkpointing") || !to.config.flag(key)) return;
  if (to.plan.all_full())
    to.plan.placement.activations = Tier::kCpu;
  else
    to.config.add(Trouble::kNoEffect, key,
                  "only where the model calls deepspeed.checkpointing and recomputes all layers "
                  "(--recompute full)");
}

void read_optimizer(const KeysToPlan& to) {
  const auto type = to.config.find("optimizer.type");
  if (!type) return;
  constexpr std::pair<std::string_view, OptimizerKind> kNames[] = {{"adam", OptimizerKind::kAdamW},
                                                                   {"adamw", OptimizerKind::kAdamW},
                                                                   {"muon", OptimizerKind::kMuon},
                                                                   {"sgd", OptimizerKind::kSgd}};
  const std::string word = to_lower(type->string());
  const auto* const found =
      std::ranges::find(kNames, word, &std::pair<std::string_view, OptimizerKind>::first);
  if (found != std::end(kNames)) {
    to.plan.optimizer.kind = found->second;
  } else {
    to.config.add(Trouble::kNotModelled, "optimizer.type",
                  fmt::format("{}: counted as AdamW", in_quotes(type->string())));
  }
}

void read_rest(const KeysToPlan& to) {
  to.plan.clip = to.config.number("gradient_clipping", 0, 1e9) > 0;
  take_dropout(to.around.asked, to.plan, to.config);
  take_trained(to.around.asked, to.plan);
  read_recomputation(to);
  read_optimizer(to);
  if (to.config.flag("zero_optimization.zero_quantized_weights") ||
      to.config.flag("zero_optimization.zero_quantized_gradients"))
    to.config.add(Trouble::kNotModelled, "zero_optimization.zero_quantized_weights",
                  "quantized gathers and reductions move less than is counted here");
}

}  // namespace

bool is_deepspeed(const JsonNode& root) {
  constexpr std::string_view kSigns[] = {"zero_optimization", "train_micro_batch_size_per_gpu",
                                         "train_batch_size"};
  return std::ranges::any_of(
      kSigns, [&](std::string_view sign) { return find_key(root, sign).has_value(); });
}

Setup read_deepspeed(const JsonNode& root, const Surroundings& around) {
  const KeyTable& table = KeyTable::of("deepspeed.json");
  ConfigReader config(root, table);
  config.check_keys();
  // What the Trainer starts are its own modules.
  Setup out{.version = table.version(), .stack = around.with_trainer ? "hf" : "deepspeed"};
  out.plan.model = around.model.name;
  const KeysToPlan to{config, around, out.plan};
  read_ranks(to);
  read_stage(to);
  read_deepspeed_homes(to);
  read_deepspeed_precision(to);
  read_deepspeed_gathers(to);
  read_deepspeed_batch(to);
  read_rest(to);
  out.buckets = deepspeed_buckets(to);
  check_deepspeed_rules(to);
  out.findings = std::move(config).findings();
  return out;
}

}  // namespace zplan
