#include <fmt/format.h>

#include <algorithm>

#include "planner/core/text.h"
#include "planner/foreign/frameworks/megatron_parts.h"
#include "planner/plan/limits.h"

namespace zplan {
namespace {

// The operators of a module; none: of the Plan it is no choice.
OperatorSet operators_of(std::string_view module) {
  if (module == "core_attn") return {LayerOperator::kAttention};
  if (module == "layernorm") return {LayerOperator::kNorm};
  if (module == "mlp") return {LayerOperator::kFc1, LayerOperator::kActivation};
  if (module == "moe_act") return {LayerOperator::kActivation};
  if (module == "moe") return {LayerOperator::kExperts};
  if (module == "mla_up_proj") return {LayerOperator::kQkv};
  return {};
}

void read_selective(const KeysToPlan& to) {
  const std::string_view option = "--recompute-modules";
  const auto modules = to.config.find(option);
  to.plan.recompute = {{Recompute::kSelective}};
  if (!modules) return;
  OperatorSet operators;
  const std::vector<JsonNode> words =
      modules->is_array() ? modules->items() : std::vector<JsonNode>{*modules};
  for (const JsonNode& word : words) {
    const std::string module = word.string();
    if (module.starts_with("moe") && !to.around.model.experts) {
      to.config.add(
          Trouble::kNoEffect, option,
          fmt::format("{} is of experts, of which the model has none", in_quotes(module)));
      continue;
    }
    const OperatorSet more = operators_of(module);
    operators = operators | more;
    if (more.empty())
      to.config.add(Trouble::kNotModelled, option,
                    fmt::format("{} is counted as kept", in_quotes(module)));
  }
  if (!operators.empty())
    to.plan.recompute = {{.mode = Recompute::kOperators, .operators = operators}};
}

// The first n layers of each stage.
void recompute_block(Plan& plan, std::int64_t layers, std::int64_t n) {
  const std::int64_t per_stage = layers / plan.parallel.pp;
  if (n >= per_stage) return;
  plan.recompute.clear();
  for (std::int32_t stage = 0; stage < plan.parallel.pp; ++stage) {
    if (n > 0)
      plan.recompute.push_back({.mode = Recompute::kFull, .layers = static_cast<std::int32_t>(n)});
    plan.recompute.push_back(
        {.mode = Recompute::kNone, .layers = static_cast<std::int32_t>(per_stage - n)});
  }
  plan.recompute.back().layers = 0;
}

// uniform n: checkpoints of n layers; block n: the first n layers of each stage.
void read_full(const KeysToPlan& to) {
  const std::string_view method = "--recompute-method", layers = "--recompute-num-layers";
  to.plan.recompute = {{Recompute::kFull}};
  if (!to.config.has(method)) {
    to.config.add(Trouble::kError, "--recompute-granularity",
                  "full needs --recompute-method uniform or block");
    return;
  }
  const bool in_block = to.config.word(method, {"uniform", "block"}) == "block";
  const std::int64_t n = to.config.has(layers) ? to.config.integer(layers, 0, kMaxLayers) : 1;
  if (in_block)
    recompute_block(to.plan, to.around.model.layers, n);
  else
    to.plan.checkpoint_layers = static_cast<std::int32_t>(std::max<std::int64_t>(n, 1));
}

}  // namespace

void read_megatron_recomputation(const KeysToPlan& to) {
  const ConfigReader& config = to.config;
  const std::string_view option = "--recompute-granularity";
  std::string granularity = config.has(option) ? config.word(option, {"full", "selective"}) : "";
  if (config.flag("--recompute-activations")) granularity = "selective";
  if (is_megatron_fork(config) && config.flag("--checkpoint-activations")) {
    to.plan.recompute = {{Recompute::kFull}};
    return;
  }
  if (granularity == "selective") read_selective(to);
  if (granularity == "full") read_full(to);
  to.plan.partition_activations = config.flag("--distribute-saved-activations");
}

}  // namespace zplan
