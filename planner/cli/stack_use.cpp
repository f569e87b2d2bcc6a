#include "planner/cli/stack_use.h"

#include <fmt/format.h>

#include <algorithm>

#include "planner/cli/output.h"
#include "planner/plan/choice_text.h"
#include "planner/program/kernel_set.h"

namespace zplan {
namespace {

// The device's kernel set, with or without fused attention as the stack has it, if there is one.
std::string kernels_of(const StackProfile& stack, const std::string& usual) {
  constexpr std::string_view kUnfused = ".unfused";
  const bool fused = !usual.ends_with(kUnfused);
  if (fused == stack.fused) return usual;
  const std::string other =
      stack.fused ? usual.substr(0, usual.size() - kUnfused.size()) : usual + std::string(kUnfused);
  const auto sets = kernel_sets();
  const bool known =
      std::any_of(sets.begin(), sets.end(), [&](const KernelSet& set) { return set.id == other; });
  return known ? other : usual;
}

void pin_choice(const std::string& pointer, const std::string& text, Pins& pins) {
  if (pins.has(pointer)) return;
  Plan plan;
  set_choice(plan, pointer, text);
  const Decision& row = decision(pointer);
  pins.set_setting(row, row.field.get(plan));
}

}  // namespace

void plan_with_stack(const std::string& name, Cluster& cluster, Pins& pins) {
  if (name.empty()) return;
  const StackProfile stack = load_stack(name);
  cluster.stack = stack.rates;
  std::string& usual = cluster.node.device.kernel_set;
  usual = kernels_of(stack, usual);
  const KernelSet& kernels = find_kernel_set(pins.get("/kernel_set", usual));
  for (const auto& [pointer, text] : stack.choices) {
    if (pointer == "/dropout" && !kernels.dropout) continue;  // its kernels have none
    pin_choice(pointer, text, pins);
  }
  const auto recipes = recipes_of(kernels.id);
  const bool has = std::find(recipes.begin(), recipes.end(), stack.recipe) != recipes.end();
  if (pins.recipes.empty() && has) pins.recipes = {stack.recipe};
}

void simulate_with_stack(const std::string& name, const Plan& plan, Cluster& cluster) {
  if (name.empty()) return;
  const StackProfile stack = load_stack(name);
  cluster.stack = stack.rates;
  const std::string own = kernels_of(stack, plan.kernel_set);
  if (own == plan.kernel_set) return;
  complain(
      fmt::format("{} computes with {}, this plan with {}: only what its operations cost is "
                  "the stack's",
                  stack.name, own, plan.kernel_set));
}

}  // namespace zplan
