#include <fmt/format.h>

#include "hwprofiles/quantities.h"
#include "planner/cli/commands.h"
#include "planner/cli/frame/output.h"
#include "planner/cli/frame/plan_file.h"
#include "planner/cli/frame/words.h"
#include "planner/cli/predict/expert_load.h"
#include "planner/cli/predict/measured_use.h"
#include "planner/cli/predict/planned_file.h"
#include "planner/cli/predict/simulation.h"
#include "planner/cli/predict/stack_use.h"
#include "planner/cli/predict/trace_file.h"
#include "planner/core/quantity.h"
#include "planner/trace/memory_snapshot.h"

namespace zplan {
namespace {

bool records(const SimulateCommand& command) {
  return !command.trace.empty() || !command.timeline.empty() || !command.memory_viz.empty();
}

sim::SimOptions sim_options(const SimulateCommand& command) {
  sim::SimOptions options{.record_timeline = records(command),
                          .fingerprint = {},
                          .fold_timeline = command.timeline.empty() && !command.trace_all};
  if (command.steps) options.min_steps = options.max_steps = *command.steps;
  return options;
}

Simulation simulate(const SimulateCommand& command) {
  const ReadPlan read = read_plan(command.plan);
  const Plan& plan = read.plan;
  Cluster cluster = cluster_of(read, command.cluster);
  cluster.headroom = command.headroom;
  StackUse use = find_stack_use(command.stack, command.anchor);
  const bool is_measured = command.measured_plan.empty();  // this plan, if any
  if (!is_measured) learn_measured_file(command.measured, command.measured_plan, use);
  simulate_with_stack(use, plan, cluster);
  cluster = varied(std::move(cluster), command.changes);
  Simulation result{
      .planned = planned_job(read), .cluster = {}, .memory = {}, .time = {}, .anchors = {}};
  if (is_measured) {
    learn_measured(command.measured, {command.plan, result.planned, cluster}, use);
    take_over(use, cluster);
  }
  result.cluster = cluster;
  result.anchors = std::move(use.anchors);
  result.memory_calibration = std::move(use.memory);
  result.memory = predict_memory(result.planned, cluster, use.evidence);
  if (command.homes) result.homes = compare_homes(plan, result.planned.model, result.cluster);
  if (!result.memory.infeasible || command.ignore_capacity) {
    result.time = predict_time(result.planned, cluster, use.evidence, sim_options(command));
    result.time->experts = expert_load(result.planned, cluster);
  } else {
    const ModelConfig& model = result.planned.model;
    result.memory.infeasible->smallest_change =
        smallest_change(plan, model, cluster, make_evaluator(model, cluster));
  }
  return result;
}

// This says how much of what does not fit was only measured.
std::string measured_words(const Simulation& result) {
  const auto& calibration = result.memory_calibration;
  if (!calibration || calibration->found.offset.value <= 0) return "";
  return fmt::format("; {} of it were measured beyond what was predicted (--measured)",
                     format_bytes(calibration->found.offset));
}

void write_files(const SimulateCommand& command, const Simulation& result) {
  const Job& job = result.planned.job;
  const Timeline& timeline = result.time->sim.timeline;
  if (!command.trace.empty())
    write_trace(command.trace, job, timeline, command.trace_all, trace_links(job, result.cluster));
  if (!command.timeline.empty()) write_file(command.timeline, to_json(timeline));
  if (!command.memory_viz.empty())
    write_file(command.memory_viz, memory_snapshot(job, lifetimes(job), timeline));
}

}  // namespace

ExitCode execute(const SimulateCommand& command) {
  check_outputs({command.trace, command.timeline, command.memory_viz}, {command.plan});
  check_trace(command.trace, command.trace_all);
  const Simulation result = simulate(command);
  if (!result.time) {
    complain(fmt::format("{} does not fit on {}: {}{} (--ignore-capacity simulates it anyway)",
                         command.plan, result.cluster.name, full_reason(*result.memory.infeasible),
                         measured_words(result)));
    if (command.json) write_answer(simulation_sheet(result), true);
    return ExitCode::kInfeasible;
  }
  write_answer(simulation_sheet(result), command.json, [&] { write_files(command, result); });
  return ExitCode::kOk;
}

}  // namespace zplan
