#include "planner/cli/run/training.h"

#include <fmt/format.h>

#include "exec/cpu/cpu_device.h"
#include "exec/cuda_plugin.h"
#include "hwprofiles/stack.h"
#include "planner/cli/frame/output.h"
#include "planner/core/error.h"
#include "planner/plan/choices.h"
#include "planner/plan/plan_schedule.h"
#include "planner/program/kernels/kernel_set.h"

namespace zplan {

namespace {

// The set for CPUs that does the same in another number format.
const KernelSet& in_format(const KernelSet& set, DType format) {
  for (const KernelSet& other : kernel_sets())
    if (other.runs_on == set.runs_on && other.compute == format &&
        other.fused_attention == set.fused_attention &&
        other.fused_neighbours == set.fused_neighbours &&
        other.layer_products == set.layer_products && other.rounds_whole == set.rounds_whole)
      return other;
  ZPLAN_ASSERT(false);
}

}  // namespace

ReadPlan runnable_plan(const RunCommand& command) {
  ReadPlan read = read_plan(command.plan);
  Plan& plan = read.plan;
  const KernelSet& set = find_kernel_set(plan.kernel_set);
  const auto refuse = [&](const char* what) {
    throw_bad_input(fmt::format("{}: kernel set {} {}", command.plan, plan.kernel_set, what));
  };
  if (set.runs_on == RunsOn::kNowhere) refuse("is for planning; no backend has its kernels");
  if (plan.dropout && set.runs_on == RunsOn::kCuda)
    refuse("has dropout for planning only; cpu.f64.unfused, say, draws its masks");
  if (set.runs_on == RunsOn::kCpu && command.backend == BackendChoice::kCuda)
    refuse("does not run on a GPU; plan for one, with --cluster dgx-h100x1, say");
  const bool on_cuda = set.runs_on == RunsOn::kCuda;
  if (on_cuda && command.backend == BackendChoice::kCpu) {
    refuse(
        "does not run on a CPU; pin --kernel-set cpu.f32 or plan for CPUs: zplan plan --model "
        "tiny-gpt --cluster workstation -o plan.json");
  }
  if (on_cuda && !command.dtype.empty()) refuse("has one number format; --dtype is for CPUs");
  if (read.seal && !read.seal->software.empty())
    complain(fmt::format("{}: planned for {}; zplan runs it with its own executor", command.plan,
                         software_title(load_stack(read.seal->software))));
  if (command.dtype.empty()) return read;
  plan.kernel_set = in_format(set, command.dtype == "f64" ? DType::kF64 : DType::kF32).id;
  plan.precision = default_recipe(plan.kernel_set);
  plan.loss_scaling = find_kernel_set(plan.kernel_set).loss_scaling;
  return read;
}

std::shared_ptr<exec::Device> open_device(const Plan& plan, int local_rank) {
  if (find_kernel_set(plan.kernel_set).runs_on == RunsOn::kCpu)
    return std::make_shared<exec::cpu::CpuDevice>();
  const auto place = static_cast<std::size_t>(local_rank);
  return exec::load_cuda_device(
      {.local_rank = place < plan.gpus.size() ? plan.gpus[place] : local_rank});
}

Plan reference_plan(const Plan& plan) {
  Plan reference = plan;
  for (const Decision& row : kChoices)
    if (!row.kept) row.field.set(reference, row.plain());
  if (plan.gather.by_layer()) reference.gather = Gather::kLayer;
  reference.delayed_update = plan.updates_late();
  if (reference.delayed_update) reference.placement.optimizer = Tier::kCpu;  // it runs there only
  if (updates_each_micro_batch(plan)) {
    reference.schedule = plan.schedule;
    reference.parallel.chunks = plan.pieces();
    reference.stage_layers = plan.stage_layers;
    reference.batch.micro_batch *= plan.parallel.dp;
  }
  return reference;
}

}  // namespace zplan
