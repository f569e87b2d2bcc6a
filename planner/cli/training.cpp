#include "planner/cli/training.h"

#include <fmt/format.h>

#include "planner/core/error.h"
#include "planner/program/kernel_set.h"

namespace zplan {

Plan runnable_plan(const RunCommand& command) {
  Plan plan = load_plan(command.plan);
  if (!find_kernel_set(plan.kernel_set).runs_on_cpu) {
    throw_bad_input(fmt::format(
        "{}: kernel set {} does not run on a CPU; pin --kernel-set cpu.f32 or plan for CPUs: zplan "
        "plan --model tiny-gpt --cluster workstation -o plan.json",
        command.plan, plan.kernel_set));
  }
  if (!command.dtype.empty()) {
    plan.kernel_set = "cpu." + command.dtype;
    plan.precision = default_recipe(plan.kernel_set);
  }
  return plan;
}

Plan reference_plan(const Plan& plan) {
  Plan reference = plan;
  reference.parallel = {};
  reference.zero_stage = 0;
  reference.placement = {};
  reference.recompute = Recompute::kNone;
  return reference;
}

}  // namespace zplan
