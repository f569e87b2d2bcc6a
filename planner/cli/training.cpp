#include "planner/cli/training.h"

#include <fmt/format.h>

#include "planner/cli/plan_file.h"
#include "planner/core/error.h"
#include "planner/program/kernel_set.h"

namespace zplan {

Plan runnable_plan(const RunCommand& command) {
  Plan plan = read_plan(command.plan);
  if (find_kernel_set(plan.kernel_set).runs_on != RunsOn::kCpu) {
    throw_bad_input(fmt::format(
        "{}: kernel set {} does not run on a CPU; pin --kernel-set cpu.f32 or plan for CPUs: zplan "
        "plan --model tiny-gpt --cluster workstation -o plan.json",
        command.plan, plan.kernel_set));
  }
  if (!command.dtype.empty()) {
    const bool fused = find_kernel_set(plan.kernel_set).fused_attention;
    plan.kernel_set = fmt::format("cpu.{}{}", command.dtype, fused ? "" : ".unfused");
    plan.precision = default_recipe(plan.kernel_set);
    plan.loss_scaling = find_kernel_set(plan.kernel_set).loss_scaling;
  }
  return plan;
}

Plan reference_plan(const Plan& plan) {
  Plan reference = plan;
  reference.parallel = {};
  reference.zero_stage = 0;
  reference.placement = {};
  if (plan.delayed_update) reference.placement.optimizer = Tier::kCpu;  // it runs there only
  reference.unit_layers = reference.tiles = 1;
  reference.owners = false;
  reference.recompute = {{Recompute::kNone}};
  reference.partition_activations = false;
  reference.schedule = Schedule::kOneForwardOneBackward;
  reference.stage_layers.clear();
  return reference;
}

}  // namespace zplan
