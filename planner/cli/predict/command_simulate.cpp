#include <fmt/format.h>

#include <optional>
#include <utility>

#include "planner/cli/answer/chosen_plan.h"
#include "planner/cli/commands.h"
#include "planner/cli/frame/output.h"
#include "planner/cli/frame/words.h"
#include "planner/cli/predict/expert_load.h"
#include "planner/cli/predict/simulation.h"
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

// Simulates the plan, with its timeline where that is written.
Simulation simulate(const SimulateCommand& command, ChosenPlan chosen) {
  Simulation result{.planned = std::move(chosen.planned),
                    .cluster = std::move(chosen.cluster),
                    .memory = std::move(chosen.memory),
                    .time = {},
                    .anchors = std::move(chosen.anchors),
                    .memory_calibration = std::move(chosen.memory_calibration)};
  const Plan& plan = result.planned.plan;
  const ModelConfig& model = result.planned.model;
  if (command.homes) result.homes = compare_homes(plan, model, result.cluster);
  if (!result.memory.infeasible || command.source.question.ignore_capacity) {
    result.time =
        predict_time(result.planned, result.cluster, chosen.evidence, sim_options(command));
    result.time->experts = expert_load(result.planned, result.cluster);
  } else {
    result.memory.infeasible->smallest_change =
        smallest_change(plan, model, result.cluster, make_evaluator(model, result.cluster));
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
  check_outputs({command.trace, command.timeline, command.memory_viz}, {command.source.plan});
  check_trace(command.trace, command.trace_all);
  std::optional<ChosenPlan> chosen = choose_plan(command.source);
  if (!chosen) return ExitCode::kInfeasible;
  const Simulation result = simulate(command, *std::move(chosen));
  if (!result.time) {
    complain(fmt::format("{} does not fit on {}: {}{} (--ignore-capacity simulates it anyway)",
                         command.source.plan, result.cluster.name,
                         full_reason(*result.memory.infeasible), measured_words(result)));
    if (command.json) write_answer(simulation_sheet(result), true);
    return ExitCode::kInfeasible;
  }
  write_answer(simulation_sheet(result), command.json, [&] { write_files(command, result); });
  return ExitCode::kOk;
}

}  // namespace zplan
