#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "hwprofiles/memory_quantity.h"
#include "planner/core/text.h"
#include "planner/plan/choice_text.h"
#include "planner/plan/plan_schedule.h"
#include "planner/program/kernels/kernel_set.h"
#include "planner/validate/record_subjects.h"

namespace zplan {
namespace {

constexpr std::int32_t kGathers = 2;  // with ZeRO stages from this one on

// Why kernels and ZeRO stage do not take the recipe: some casts are of some stages only.
Reason wrong_with_stage(const PrecisionRecipe& recipe, const Plan& plan) {
  Plan alone;
  alone.kernel_set = plan.kernel_set;
  alone.loss_scaling = plan.loss_scaling;
  alone.zero_stage = plan.zero_stage;
  alone.precision = recipe;
  return illegal(alone, 1);
}
bool goes_with_stage(const PrecisionRecipe& recipe, const Plan& plan) {
  return !wrong_with_stage(recipe, plan);
}

// [PyTorch] Parameters in fp32 that no gather of FSDP casts are cast by torch.autocast for each
// product. Where the software is a guess, so is what it keeps its parameters in.
bool casts_for_products(const RunRecord& run, const std::optional<PrecisionRecipe>& usual,
                        const PlannedRun& out) {
  const bool gathers = out.plan.zero_stage >= kGathers;
  if (gathers || run.precision.compute == "fp32" || !is_pytorch(out.cluster.stack.modules))
    return false;
  if (run.precision.params) return *run.precision.params == "fp32";
  if (run.precision.param_bytes)
    return *run.precision.param_bytes == static_cast<double>(size_of(DType::kF32).value);
  return out.stack_stated && usual && usual->param == DType::kF32;
}

// Chooses the recipe whose bytes per parameter are nearest, of those that go with the ZeRO stage.
void choose_by_bytes(const RunPrecision& stated, PlannedRun& out) {
  Plan& plan = out.plan;
  const auto off = [](std::optional<double> bytes, Bytes have) {
    return bytes ? std::abs(*bytes - static_cast<double>(have.value)) : 0.0;
  };
  double least = -1;
  for (const std::string_view name : recipes_of(plan.kernel_set)) {
    Plan candidate = plan;
    candidate.precision = *find_recipe(name, plan.kernel_set);
    if (!goes_with_stage(candidate.precision, plan)) continue;
    // Homes of the states do not decide which bytes a recipe keeps.
    candidate.placement = {};
    const double sum = off(stated.param_bytes, size_of(candidate.precision.param)) +
                       off(stated.grad_bytes, size_of(candidate.precision.grad)) +
                       off(stated.optimizer_bytes_per_param, candidate.optimizer_bytes());
    if (least >= 0 && sum >= least) continue;
    least = sum;
    plan.precision = candidate.precision;
  }
  if (least > 0) out.flags.emplace_back("recipe with other bytes per parameter than stated");
}

std::optional<DType> type_named(const std::string& word) {
  if (word == "fp64") return DType::kF64;
  if (word == "fp32") return DType::kF32;
  if (word == "bf16") return DType::kBf16;
  if (word == "fp16") return DType::kF16;
  return std::nullopt;
}

bool states_types(const RunRecord& run) {
  const RunPrecision& p = run.precision;
  return p.params || p.gradients || p.reduction || p.master || p.moments;
}

// Refuses a stated type that no kernel takes.
Reason unknown_type(const RunPrecision& p) {
  for (const auto& [what, type] :
       {std::pair{"parameters", p.params}, std::pair{"gradients", p.gradients},
        std::pair{"gradients reduced", p.reduction}, std::pair{"the master copy", p.master},
        std::pair{"moments", p.moments}})
    if (type && !type_named(*type)) return not_modelled(fmt::format("{} in {}", what, *type));
  return std::nullopt;
}

// Returns where gradients become those that are added up. Megatron-LM's products write these
// themselves.
GradientCast cast_of(const RunPrecision& p, const PlannedRun& out, DType compute) {
  const PrecisionRecipe& recipe = out.plan.precision;
  if (recipe.grad == compute || out.plan.zero_stage < kGathers) return GradientCast::kNone;
  if (p.reduction && *type_named(*p.reduction) == compute) return GradientCast::kAfterReduction;
  if (!p.reduction) return recipe.grad_cast;
  return is_pytorch(out.cluster.stack.modules) ? GradientCast::kBeforeReduction
                                               : GradientCast::kNone;
}

// Types that a recipe has beside that of its parameters follow them where nothing is said: states
// of an optimizer of PyTorch are made like its parameters, which are their own master copy.
void follow_parameters(const RunPrecision& p, DType type, PrecisionRecipe& recipe) {
  if (!p.master) recipe.master = type;
  if (!p.moments) recipe.moments = type;
  if (!p.gradients && !p.reduction) recipe.grad = type;
}

// Returns the type that gradients are reduced in.
DType reduced_in(const PrecisionRecipe& recipe, DType compute) {
  return recipe.grad_cast == GradientCast::kAfterReduction ? compute : recipe.grad;
}

// The stated element types, in the recipe that the bytes or the software give. Parameters in fp32
// that a gather casts and that stay gathered are a master copy of those in 16 bits.
Reason choose_types(const RunRecord& run, PlannedRun& out) {
  const RunPrecision& p = run.precision;
  if (Reason why = unknown_type(p)) return why;
  PrecisionRecipe& recipe = out.plan.precision;
  const DType compute = find_kernel_set(out.plan.kernel_set).compute;
  if (p.params) {
    const DType type = *type_named(*p.params);
    const bool kept = type == DType::kF32 && out.plan.zero_stage < 3;
    recipe.param = kept ? compute : type;
    if (is_pytorch(out.cluster.stack.modules) && size_of(type) < size_of(DType::kF32))
      follow_parameters(p, type, recipe);
    else if (!p.master)
      recipe.master =
          std::max(recipe.master, type, [](DType a, DType b) { return size_of(a) < size_of(b); });
  }
  if (p.gradients) recipe.grad = *type_named(*p.gradients);
  // [MegatronCore] Gradients are added up in the type that they are reduced in, where no other one
  // is stated.
  if (!p.gradients && p.reduction && !is_pytorch(out.cluster.stack.modules))
    recipe.grad = *type_named(*p.reduction);
  if (p.master) recipe.master = *type_named(*p.master);
  if (p.moments) recipe.moments = *type_named(*p.moments);
  recipe.separate_master = recipe.master != recipe.param;
  recipe.main_grad = recipe.main_grad && recipe.grad != DType::kF32;
  recipe.grad_cast = cast_of(p, out, compute);
  if (p.reduction && *type_named(*p.reduction) != reduced_in(recipe, compute) &&
      out.plan.replicas() > 1)
    out.flags.push_back(fmt::format("gradients reduced in {} instead of {}",
                                    name(reduced_in(recipe, compute)), *p.reduction));
  return wrong_with_stage(recipe, out.plan);
}

// [MegatronCore core/optimizer/distrib_optimizer.py] An optimizer that is not aware of precision
// copies 16-bit gradients to the type of its moments at each step, when activations are gone.
// [derived] Traffic over that of an update which reads gradients, master and moments and writes the
// last two and parameters.
double copied_gradients(const PrecisionRecipe& recipe) {
  const auto bytes = [](DType type) { return static_cast<double>(size_of(type).value); };
  if (bytes(recipe.grad) >= bytes(recipe.moments)) return 1;
  const double update = bytes(recipe.grad) + 2 * bytes(recipe.master) + 4 * bytes(recipe.moments) +
                        bytes(recipe.param);
  return (update + 2 * bytes(recipe.moments)) / update;
}

// Whether some parameters are updated before all gradients, and so their norm, are there.
bool updates_before_all_gradients(const Plan& plan) {
  return plan.overlap.optimizer || reaches_across_steps(plan) || updates_each_micro_batch(plan);
}

}  // namespace

Reason choose_recipe(const RunRecord& run, const StackProfile& stack, PlannedRun& out) {
  Plan& plan = out.plan;
  const RunPrecision& stated = run.precision;
  const bool states = stated.param_bytes || stated.grad_bytes || stated.optimizer_bytes_per_param;
  plan.precision = default_recipe(plan.kernel_set);
  const auto usual = find_recipe(stack.recipe, plan.kernel_set);
  if (usual && goes_with_stage(*usual, plan)) plan.precision = *usual;
  out.cluster.stack.autocast = casts_for_products(run, usual, out);
  if (out.cluster.stack.autocast) {
    out.flags.emplace_back("parameters in fp32, cast for each product");
  } else if (states) {
    choose_by_bytes(stated, out);
  } else if (usual && plan.precision != *usual) {
    out.flags.push_back(fmt::format("recipe {} of the stack is not for ZeRO stage {}: standard",
                                    stack.recipe, plan.zero_stage));
  }
  return states_types(run) ? choose_types(run, out) : std::nullopt;
}

void choose_codes(const RunRecord& run, const StackProfile& stack, PlannedRun& out) {
  Plan& plan = out.plan;
  if (find_kernel_set(plan.kernel_set).layer_products != LayerProducts::kFp8) return;
  const RunPrecision& p = run.precision;
  if (p.fp8_gathers.value_or(false) || p.fp8_weights.value_or(false))
    out.cluster.memory[MemoryQuantity::kWeightCodes] = {};
  Plan wanted = plan;
  for (const auto& [pointer, text] : stack.codes) set_choice(wanted, pointer, text);
  wanted.low_precision.keeps_codes = p.fp8_activations.value_or(wanted.low_precision.keeps_codes);
  Plan alone;
  alone.kernel_set = wanted.kernel_set;
  alone.precision = default_recipe(wanted.kernel_set);
  alone.train = wanted.train;
  alone.recompute = wanted.recompute;
  alone.low_precision = wanted.low_precision;
  if (illegal(alone, out.model.layers))
    out.flags.emplace_back("inputs of products kept in 16 bits");
  else
    plan.low_precision = wanted.low_precision;
}

Reason choose_optimizer(const RunRecord& run, PlannedRun& out) {
  const RunOptimizer& stated = run.optimizer;
  Plan& plan = out.plan;
  if (stated.kind) {
    const auto row = std::ranges::find(kOptimizers, *stated.kind, &OptimizerRow::word);
    if (row == std::end(kOptimizers)) return not_modelled("optimizer " + visible(*stated.kind));
    if (row->matrices.in_blocks && out.model.experts)
      return not_modelled(fmt::format("{} of a model with experts", row->title));
    plan.optimizer.kind = static_cast<OptimizerKind>(row - std::begin(kOptimizers));
  }
  plan.optimizer.block = stated.block.value_or(plan.optimizer.block);
  if (!stated.precision_aware.value_or(true))
    out.cluster.stack.optimizer *= copied_gradients(plan.precision);
  if (!stated.clip && plan.clip && updates_before_all_gradients(plan)) {
    plan.clip = false;
    out.flags.emplace_back("no clipping assumed: updates come before the norm of all gradients");
  }
  plan.clip = stated.clip.value_or(plan.clip);
  if (const double share = stated.cpu_fraction.value_or(0); share > 0) {
    plan.placement.optimizer = Tier::kCpu;
    plan.placement.optimizer_near = 1 - share;
  }
  return std::nullopt;
}

}  // namespace zplan
