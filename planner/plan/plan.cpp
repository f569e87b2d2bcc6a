#include "planner/plan/plan.h"

#include <algorithm>

#include "planner/plan/plan_schedule.h"
#include "planner/program/kernels/kernel_set.h"

namespace zplan {

bool RecomputeRun::is_sound() const {
  const bool names = !(operators | on_cpu | on_nvme).empty();
  return names == (mode == Recompute::kOperators) && !operators.meets(on_cpu | on_nvme) &&
         !on_cpu.meets(on_nvme);
}

RecomputeRun Plan::run_of(std::int64_t layer) const {
  for (const RecomputeRun& run : recompute) {
    if (run.layers == 0 || layer < run.layers) return run;
    layer -= run.layers;
  }
  return {};
}

Recompute Plan::effective(Recompute mode) const {
  const bool idle = mode == Recompute::kSelective && find_kernel_set(kernel_set).fused_attention;
  return idle ? Recompute::kNone : mode;
}

bool Plan::all_full() const {
  return !recompute.empty() &&
         std::all_of(recompute.begin(), recompute.end(),
                     [](const RecomputeRun& run) { return run.mode == Recompute::kFull; });
}

Plan::Plan() = default;
Plan::Plan(const Plan&) = default;
Plan::Plan(Plan&&) noexcept = default;
Plan& Plan::operator=(const Plan&) = default;
Plan& Plan::operator=(Plan&&) noexcept = default;
Plan::~Plan() = default;

bool operator==(const Plan&, const Plan&) = default;

bool Plan::updates_late() const {
  return delayed_update || (reaches_across_steps(*this) && !updates_each_micro_batch(*this));
}

std::int64_t Plan::updates() const { return updates_each_micro_batch(*this) ? micro_steps() : 1; }

bool Plan::keeps_master() const {
  return precision.separate_master || placement.optimizer != placement.params || delayed_update ||
         offload.master || placement.near(ModelState::kOptimizer) ||
         placement.near(ModelState::kParameters);
}

Tier StatePlacement::of(ModelState state) const {
  if (state == ModelState::kParameters) return params;
  return state == ModelState::kGradients ? grads : optimizer;
}

double& StatePlacement::near_share(ModelState state) {
  if (state == ModelState::kParameters) return params_near;
  return state == ModelState::kGradients ? grads_near : optimizer_near;
}

double StatePlacement::near_share(ModelState state) const {
  return StatePlacement(*this).near_share(state);
}

std::optional<Tier> StatePlacement::near(ModelState state) const {
  if (of(state) == Tier::kGpu || near_share(state) == 0) return std::nullopt;
  return of(state) == Tier::kCpu ? Tier::kGpu : Tier::kCpu;
}

std::int32_t StatePlacement::near_units(ModelState state, std::int32_t units) const {
  constexpr double kRounding = 1e-9;  // 0.29 of 100 is 29
  const double share = near_share(state);
  if (!near(state)) return 0;
  const auto whole = static_cast<std::int32_t>(share * units + kRounding);
  return share < 1 ? std::min(whole, std::max(0, units - 1)) : whole;
}

std::vector<Tier> StatePlacement::tiers() const {
  std::vector<Tier> all{activations};
  for (const ModelState state : kModelStates) {
    all.push_back(of(state));
    if (const std::optional<Tier> nearer = near(state)) all.push_back(*nearer);
  }
  return all;
}

bool Plan::casts_params() const { return precision.param != find_kernel_set(kernel_set).compute; }

Bytes Plan::optimizer_bytes() const {
  const PrecisionRecipe& r = precision;
  const UpdateRule& rule = optimizer.row().matrices;
  Bytes sum = (rule.in_blocks ? size_of(DType::kU8) : size_of(r.moments)) * rule.moments;
  if (keeps_master()) sum += size_of(r.master);
  if (r.main_grad) sum += size_of(r.moments);
  return sum;
}

Bytes Plan::state_bytes() const {
  return size_of(precision.param) + size_of(precision.grad) + optimizer_bytes();
}

std::int32_t Plan::layers_of_piece(std::int64_t layers, std::int32_t piece) const {
  if (!stage_layers.empty()) return stage_layers[static_cast<std::size_t>(piece)];
  const std::int64_t extra = piece < layers % pieces() ? 1 : 0;
  return static_cast<std::int32_t>(layers / pieces() + extra);
}

PrecisionRecipe default_recipe(std::string_view kernel_set) {
  const DType compute = find_kernel_set(kernel_set).compute;
  const bool mixed = compute == DType::kF16 || compute == DType::kBf16;
  const DType state = mixed ? DType::kF32 : compute;
  return {.param = compute,
          .grad = compute,
          .master = state,
          .moments = state,
          .separate_master = mixed};
}

std::optional<PrecisionRecipe> find_recipe(std::string_view recipe, std::string_view kernel_set) {
  PrecisionRecipe r = default_recipe(kernel_set);
  if (recipe == "standard") return r;
  if (!r.separate_master) return std::nullopt;
  if (recipe == "fp32-gradients") {
    r.grad = DType::kF32;
  } else if (recipe == "fp32-reduction" || recipe == "half-reduction") {
    r.grad = DType::kF32;
    r.grad_cast =
        recipe == "fp32-reduction" ? GradientCast::kBeforeReduction : GradientCast::kAfterReduction;
  } else if (recipe == "main-gradients") {
    r.main_grad = true;
  } else if (recipe == "lean" && r.param == DType::kBf16) {
    r.master = r.moments = r.param;
    r.separate_master = false;
  } else if (recipe == "fsdp" || recipe == "fsdp-pure") {
    r.param = r.grad = DType::kF32;
    r.separate_master = false;
    r.grad_cast = recipe == "fsdp" ? GradientCast::kBeforeReduction : GradientCast::kAfterReduction;
  } else {
    return std::nullopt;
  }
  return r;
}

std::vector<std::string_view> recipes_of(std::string_view kernel_set) {
  std::vector<std::string_view> names;
  for (const std::string_view recipe : kRecipeNames)
    if (find_recipe(recipe, kernel_set)) names.push_back(recipe);
  return names;
}

std::size_t recipe_index(const Plan& plan) {
  std::size_t i = 0;
  while (i < std::size(kRecipeNames) &&
         find_recipe(kRecipeNames[i], plan.kernel_set) != plan.precision)
    ++i;
  return i;
}

std::string_view recipe_name(std::size_t index) {
  return index < std::size(kRecipeNames) ? kRecipeNames[index] : "custom";
}

}  // namespace zplan
