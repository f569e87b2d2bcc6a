#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "planner/plan/choice_text.h"
#include "planner/plan/choices.h"
#include "planner/validate/record_subjects.h"
#include "planner/validate/run_homes.h"

namespace zplan {
namespace {

using enum LayerOperator;

// Each module is some operators of a layer, of layers with experts or without or of both.
// [MegatronCore core/transformer/transformer_config.py] mlp is the dense one, moe and moe_act are
// those of experts. Recomputing an MLP needs its last product no more than backward does. Latents
// are kept where what they are projected to is recomputed.
enum class Where : std::uint8_t { kAll, kDense, kExperts };
struct Module {
  std::string_view word;
  OperatorSet operators;
  Where where = Where::kAll;
};
const Module kModules[] = {
    {"norm", {kNorm}},
    {"layernorm", {kNorm}},
    {"attn_norm", {kNorm}},
    {"mlp_norm", {kNorm}},
    {"qkv", {kQkv}},
    {"qkv_linear", {kQkv}},
    {"mla_up_proj", {kQkv}},
    {"attention", {kAttention}},
    {"core_attn", {kAttention}},
    {"projection", {kProjection}},
    {"attn_proj", {kProjection}},
    {"self_attn", {kQkv, kAttention, kProjection}},
    {"attn", {kQkv, kAttention, kProjection}},
    {"fc1", {kFc1}},
    {"expert_fc1", {kFc1}, Where::kExperts},
    {"fused_group_mlp", {kFc1, kActivation}, Where::kExperts},
    {"activation", {kActivation}},
    {"act", {kActivation}},
    {"swiglu", {kActivation}},
    {"moe_act", {kActivation}, Where::kExperts},
    {"mlp", {kFc1, kActivation}, Where::kDense},
    {"ffn", {kFc1, kActivation}},
    {"experts", {kFc1, kActivation}, Where::kExperts},
    {"moe", {kExperts}, Where::kExperts},
};

// Returns the operators in layers with experts, or in those without.
OperatorSet operators_of(const std::vector<std::string>& modules, bool experts) {
  const Where other = experts ? Where::kDense : Where::kExperts;
  OperatorSet out;
  for (const Module& module : kModules)
    if (module.where != other && is_among(modules, module.word)) out = out | module.operators;
  return out;
}

bool has(const std::optional<std::vector<std::string>>& modules, std::string_view word) {
  return modules && is_among(*modules, word);
}

// Runs of layers by what the stack recomputes of which share of them; the last has what is left.
std::vector<RecomputeRun> selected_by(const StackProfile& stack, std::int32_t layers) {
  std::vector<RecomputeRun> runs;
  for (const RecomputedShare& share : stack.selective) {
    const auto part = static_cast<std::int32_t>(std::lround(share.layers * layers));
    RecomputeRun& run = runs.emplace_back(*recompute_from_words(share.recompute));
    run.layers = std::max(1, part);
  }
  runs.back().layers = 0;
  return runs;
}

// The first layers in a way, the others nothing.
std::vector<RecomputeRun> first_layers(RecomputeRun way, std::int32_t layers, std::int64_t all) {
  if (layers == 0 || layers >= all) return {way};
  way.layers = layers;
  return {way, {}};
}

RecomputeRun way_of(OperatorSet operators) {
  if (operators.empty()) return {};
  return {.mode = Recompute::kOperators, .operators = operators};
}

// The operators of named modules, layer by layer: the first layers may be without experts.
std::vector<RecomputeRun> by_modules(const std::vector<std::string>& modules,
                                     const ModelConfig& model, std::int32_t layers) {
  const bool experts = model.experts.has_value();
  const RecomputeRun rest = way_of(operators_of(modules, experts));
  const RecomputeRun dense = way_of(operators_of(modules, false));
  const auto first = static_cast<std::int32_t>(model.first_layers());
  if (layers > 0 || !experts || first == 0 || dense == rest)
    return first_layers(rest, layers, model.layers);
  std::vector<RecomputeRun> runs{dense, rest};
  runs.front().layers = first;
  return runs;
}

// Whether full recomputation is stated beside modules that are not all of a layer, which then say
// nothing: [MegatronCore] its arguments have core_attn there by default.
bool full_beside_parts(const RunRecord& run, const ModelConfig& model) {
  const auto& modules = run.recomputed.modules;
  if (run.recompute != "full" || !modules || modules->empty()) return false;
  const OperatorSet layer{kNorm, kQkv, kAttention, kProjection, kFc1, kActivation};
  return !layer.without(operators_of(*modules, model.experts.has_value())).empty();
}

std::vector<RecomputeRun> recomputed(const RunRecord& run, const ModelConfig& model,
                                     const StackProfile& stack) {
  const RunRecompute& stated = run.recomputed;
  const std::int64_t all = run.model.layers;
  const std::int32_t layers = stated.layers.value_or(0);
  if (has(stated.modules, "layer") || full_beside_parts(run, model))
    return first_layers({Recompute::kFull}, layers, all);
  if (stated.modules && !stated.modules->empty()) return by_modules(*stated.modules, model, layers);
  if (run.recompute == "none" || !run.recompute) return {{}};
  if (run.recompute == "full" || layers > 0) return first_layers({Recompute::kFull}, layers, all);
  if (!stack.selective.empty() && all > 1 && !stated.modules)
    return selected_by(stack, static_cast<std::int32_t>(all));
  return {*recompute_from_words(*run.recompute)};
}

// Results of operators go to another tier and come back, but for those that are recomputed, which
// nobody keeps.
void send_away(OperatorSet named, Tier tier, RecomputeRun& run) {
  const OperatorSet operators = named.without(run.operators);
  if (operators.empty() || run.mode == Recompute::kFull) return;
  run.mode = Recompute::kOperators;
  (tier == Tier::kNvme ? run.on_nvme : run.on_cpu) = operators;
}

void send_away(const std::vector<std::string>& modules, const ModelConfig& model, Tier tier,
               std::vector<RecomputeRun>& runs) {
  const bool experts = model.experts.has_value();
  const auto first = static_cast<std::int32_t>(model.first_layers());
  const OperatorSet rest = operators_of(modules, experts), dense = operators_of(modules, false);
  if (experts && first > 0 && runs.size() == 1 && dense != rest) {
    runs.insert(runs.begin(), runs.front());
    runs.front().layers = first;
  }
  std::int32_t before = 0;  // layers of the runs that are done
  for (RecomputeRun& run : runs) {
    send_away(experts && before < first ? dense : rest, tier, run);
    before += run.layers;
  }
}

// Modules that are no operators of a layer stay as they are, and are said to.
void note_others(const std::vector<std::string>& modules, std::string_view whole,
                 std::string_view what, PlannedRun& out) {
  for (const std::string& module : modules) {
    const auto* const known = std::ranges::find(kModules, module, &Module::word);
    const bool is_there =
        known != std::end(kModules) && (known->where != Where::kExperts || out.model.experts);
    if (module == whole || is_there) continue;
    out.flags.push_back(fmt::format("{} not {} by itself", module, what));
    out.stack_stated = false;
  }
}

}  // namespace

Reason choose_recompute(const RunRecord& run, const StackProfile& stack, PlannedRun& out) {
  Plan& plan = out.plan;
  const RunRecompute& stated = run.recomputed;
  if (chooses_homes(run)) {
    plan.recompute = {{Recompute::kFull}};  // until homes are chosen
  } else if (run.recompute || stated.modules) {
    plan.recompute = recomputed(run, out.model, stack);
  }
  out.recompute_stated = run.recompute || (stated.modules && !stated.modules->empty());
  if (full_beside_parts(run, out.model) && !has(stated.modules, "layer"))
    out.flags.emplace_back("whole layers recomputed, whatever modules are named");
  else if (stated.modules)
    note_others(*stated.modules, "layer", "recomputed", out);
  plan.checkpoint_layers = stated.layers_per_checkpoint.value_or(plan.checkpoint_layers);
  plan.partition_activations = stated.partitioned.value_or(plan.partition_activations);
  const auto& away = run.offload.activation_modules;
  if (!away || chooses_homes(run)) return std::nullopt;
  note_others(*away, "layer_inputs", "sent off the GPU", out);
  send_away(*away, out.model, plan.placement.activations, plan.recompute);
  if (!has(away, "layer_inputs"))
    plan.placement.activations = Tier::kGpu;
  else if (plan.placement.activations == Tier::kGpu)
    plan.placement.activations = Tier::kCpu;
  return std::nullopt;
}

}  // namespace zplan
