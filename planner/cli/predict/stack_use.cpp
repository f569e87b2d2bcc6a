#include "planner/cli/predict/stack_use.h"

#include <fmt/format.h>

#include <algorithm>

#include "hwprofiles/memory_quantity.h"
#include "planner/certainty/kind.h"
#include "planner/cli/frame/output.h"
#include "planner/cli/frame/pin_options.h"
#include "planner/core/error.h"
#include "planner/core/nearest.h"
#include "planner/core/text.h"
#include "planner/foreign/frameworks/round_trip.h"
#include "planner/plan/choice_text.h"
#include "planner/program/kernels/kernel_set.h"
#include "planner/software/software_plans.h"
#include "planner/validate/run_stack.h"

namespace zplan {
namespace {

// Whether the stack fuses attention on these devices: where their usual set does not, nobody's
// kernel does.
bool fuses_attention(const StackProfile& stack, const Cluster& cluster) {
  const auto sets = kernel_sets();
  return stack.fused && std::none_of(sets.begin(), sets.end(), [&](const KernelSet& set) {
           return set.id == cluster.node.device.kernel_set && !set.fused_attention;
         });
}

// The set that differs from `usual` in that alone; where there is none, or nothing differs,
// `usual`.
std::string kernels_of(const StackProfile& stack, const Cluster& cluster,
                       const std::string& usual) {
  const KernelSet& own = find_kernel_set(usual);
  const bool fused = fuses_attention(stack, cluster);
  if (own.fused_attention == fused) return usual;
  const KernelSet* const other = other_attention(own);
  return other == nullptr ? usual : std::string(other->id);
}

void check_recipe(const StackProfile& stack) {
  const std::vector<std::string> known(std::begin(kRecipeNames), std::end(kRecipeNames));
  const bool found = std::find(known.begin(), known.end(), stack.recipe) != known.end();
  if (found || stack.recipe.empty()) return;
  throw_bad_input(fmt::format("/recipe: expected one of {}, got {}{}", joined(known, ", "),
                              in_quotes(stack.recipe), did_you_mean(stack.recipe, known)));
}

StackMemory memory_of(const StackProfile& stack, const Cluster& cluster) {
  StackMemory memory = stack.memory;
  memory.measured = measured_for(memory, cluster);
  return memory;
}

// Of runs of one's own there is one stack.
std::string stack_of_runs(const std::vector<RunRecord>& runs, const RunCatalogues& catalogues) {
  const auto stack = [&](const RunRecord& run) {
    return stack_of(run, catalogues.hardware.device(run.hardware.device), catalogues.stacks)
        .stack->name;
  };
  const std::string first = stack(runs.front());
  for (const RunRecord& run : runs) {
    if (stack(run) != first)
      throw_bad_input(
          fmt::format("--anchor: expected runs of one stack, got {} ({}) and {} ({}); "
                      "name it with --for",
                      first, runs.front().id, stack(run), run.id));
  }
  return first;
}

}  // namespace

StackProfile find_stack(const std::string& name, int capability) {
  StackProfile stack = load_stack(name, capability);
  try {
    Plan plan;
    for (const auto& [pointer, text] : stack.choices) set_choice(plan, pointer, text);
    check_recipe(stack);
  } catch (const Error& error) {
    throw_bad_input(fmt::format("stack {}: {}", in_quotes(stack.name), error.what()));
  }
  return stack;
}

StackUse find_stack_use(const std::string& name, const std::string& anchor,
                        const Cluster* cluster) {
  const int capability =
      cluster == nullptr ? 0 : find_kernel_set(cluster->node.device.kernel_set).capability;
  StackUse use{.asked = !name.empty() || !anchor.empty(), .evidence = {}, .anchors = {}};
  use.calibration = anchor;
  if (anchor.empty()) {
    use.evidence =
        evidence_of(find_stack(name.empty() ? "own" : name, capability), load_measured_runs());
    return use;
  }
  const std::vector<RunRecord> runs = read_anchors(anchor);
  const RunCatalogues catalogues;
  const std::string known = name.empty() ? stack_of_runs(runs, catalogues) : name;
  use.evidence = evidence_of(find_stack(known, capability), catalogues.measured);
  for (const RunRecord& run : runs)
    use.anchors.push_back(add_anchor(use.evidence, run, catalogues));
  return use;
}

StackUse software_of(const ReadPlan& read, const std::string& name, const std::string& anchor,
                     const Cluster& cluster) {
  const bool is_kept = read.seal && !read.seal->software.empty();
  if (!is_kept) return find_stack_use(name, anchor, &cluster);
  const PlanSeal& seal = *read.seal;
  if (name.empty() && anchor.empty())
    return find_stack_use(seal.software, seal.calibration, &cluster);
  StackUse use = find_stack_use(name, anchor, &cluster);
  const StackProfile kept = load_stack(seal.software);
  if (use.evidence.stack.name != kept.name)
    complain(fmt::format("{}: planned for {}, predicted with {} (--for)", read.path,
                         software_title(kept), software_title(use.evidence.stack)));
  return use;
}

void anchor_catalogues(const StackUse& use, RunCatalogues& catalogues) {
  catalogues.anchored = use.evidence;
  for (StackProfile& stack : catalogues.stacks)
    if (stack.name == use.evidence.stack.name) stack = use.evidence.stack;
}

StackRates rates_of(const StackProfile& stack, const Cluster& cluster) {
  return stack.rates_on(find_kernel_set(cluster.node.device.kernel_set).capability);
}

std::optional<MeasuredMemory> measured_for(const StackMemory& memory, const Cluster& cluster) {
  const std::string& device = cluster.node.device.name;
  if (!memory.measured || same_class(memory.measured->device, device)) return memory.measured;
  complain(fmt::format("--measured: the memory of {} says nothing of {}, and is not taken over",
                       memory.measured->device, device));
  return std::nullopt;
}

void plan_with_stack(const StackUse& use, Cluster& cluster, Pins& pins) {
  if (!use.asked) return;
  const StackProfile& stack = use.evidence.stack;
  cluster.stack = rates_of(stack, cluster);
  cluster.memory = memory_of(stack, cluster);
  std::string& usual = cluster.node.device.kernel_set;
  if (!pins.has("/kernel_set")) usual = kernels_of(stack, cluster, usual);
  const KernelSet& kernels = find_kernel_set(pins.get("/kernel_set", usual));
  for (const auto& [pointer, text] : stack.choices) {
    if (pointer == "/dropout" && !kernels.dropout) continue;  // its kernels have none
    if (!pins.has(pointer)) pin_choice(pins, pointer, text);
  }
  // Without dropout there are no masks.
  if (!pins.get("/dropout", false)) cluster.memory[MemoryQuantity::kResidual] = {};
  if (kernels.layer_products == LayerProducts::kFp8 && !pins.values().train.has_lora())
    for (const auto& [pointer, text] : stack.codes)
      if (!pins.has(pointer)) pin_choice(pins, pointer, text);
  const auto recipes = recipes_of(kernels.id);
  const bool has = std::find(recipes.begin(), recipes.end(), stack.recipe) != recipes.end();
  if (pins.recipes.empty() && has) pins.recipes = {stack.recipe};
}

namespace {

// A configuration of a framework as it is read: it calls these kernels on the devices, and holds
// these buckets beside parameters that each rank keeps whole.
Setup usual_setup(const StackProfile& stack, const ModelConfig& model, const Cluster& cluster) {
  Plan plan;
  plan.kernel_set = cluster.node.device.kernel_set;
  plan.zero_stage = 2;
  plan.parallel.dp = 2;
  plan.batch = {.global_batch = 2, .micro_batch = 1, .sequence = model.sequence};
  return read_back(find_framework(stack.target), plan, model, cluster);
}

}  // namespace

void pin_product_format(const HwProfile& node, Pins& pins) {
  if (pins.recipes.size() != 1 || !is_product_format(pins.recipes.front())) return;
  const std::string& own = node.device.kernel_set;
  const std::string set = own.substr(0, own.rfind('.') + 1) + pins.recipes.front();
  if (std::ranges::find(kernel_sets(), set, &KernelSet::id) == kernel_sets().end())
    throw_bad_input(
        fmt::format("--precision: {} has no kernel set with {} products; expected one of {}",
                    node.device.name, pins.recipes.front(), joined(kRecipeNames, ",")));
  pins.recipes.clear();
  if (!pins.has("/kernel_set")) pin_choice(pins, "/kernel_set", set);
}

void plan_for_software(const StackUse& use, const ModelConfig& model, Cluster& cluster,
                       Pins& pins) {
  pin_product_format(cluster.node, pins);
  const Pins asked = pins;
  const StackProfile& stack = use.evidence.stack;
  const bool has_files = use.asked && !stack.target.empty();
  std::optional<Setup> usual;
  if (has_files) usual = usual_setup(stack, model, cluster);
  if (usual && stack.fused && !pins.has("/kernel_set"))
    cluster.node.device.kernel_set = usual->plan.kernel_set;
  plan_with_stack(use, cluster, pins);
  if (usual && usual->buckets.value == 0) cluster.memory[MemoryQuantity::kWholeUnitBuckets] = {};
  // What keeps parameters in fp32 at ZeRO 3 keeps them in 16 bits below, as its files are read.
  if (has_files && asked.recipes.empty() && !pins.recipes.empty() &&
      pins.recipes.front().starts_with("fsdp"))
    pins.recipes.emplace_back(recipe_name(0));
  if (use.asked) pins.software = plans_of(stack, model, cluster, asked);
}

void simulate_with_stack(const StackUse& use, const Plan& plan, Cluster& cluster) {
  if (!use.asked) return;
  const StackProfile& stack = use.evidence.stack;
  cluster.stack = rates_of(stack, cluster);
  cluster.memory = memory_of(stack, cluster);
  const std::string own = kernels_of(stack, cluster, plan.kernel_set);
  if (own == plan.kernel_set) return;
  complain(
      fmt::format("{} computes with {}, this plan with {}: only what its operations cost is "
                  "the stack's",
                  stack.name, own, plan.kernel_set));
}

}  // namespace zplan
