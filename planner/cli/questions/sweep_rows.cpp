#include "planner/cli/questions/sweep_rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <set>
#include <utility>

#include "hwprofiles/quantities.h"
#include "planner/cli/answer/answer.h"
#include "planner/cli/frame/interrupt.h"
#include "planner/cli/frame/output.h"
#include "planner/cli/frame/plan_file.h"
#include "planner/cli/frame/progress.h"
#include "planner/cli/frame/words.h"
#include "planner/core/error.h"
#include "planner/core/quantity.h"
#include "planner/foreign/model_file.h"
#include "planner/search/quantity_use.h"

namespace zplan {
namespace {

// What a row was answered with.
struct Setup {
  ModelConfig model;
  Cluster cluster;
  Evidence evidence;
};

std::optional<SweptRun> run_of(const FoundPlan& best, const PlanCommand& question) {
  if (question.tokens <= 0) return std::nullopt;
  const Plan& plan = best.planned.plan;
  const auto tokens = static_cast<double>(plan.batch.global_batch * plan.batch.sequence);
  const double seconds = std::ceil(question.tokens / tokens) * best.time.sim.period.value;
  const double hours = seconds / kSecondsPerHour * static_cast<double>(plan.parallel.ranks());
  SweptRun run{.time = {seconds}, .gpu_hours = hours, .money = {}};
  if (question.price > 0) run.money = hours * question.price;
  return run;
}

SweepPlan plan_of(const FoundPlan& best, const Setup& setup, const SweepCommand& command) {
  std::vector<std::string> uses;
  for (const GridAxis& axis : command.axes)
    uses.push_back(use_words(axis.name, best.time.sim, best.memory.use));
  const Throughput& throughput = best.time.throughput;
  const TierUse& gpu = best.memory.use[static_cast<std::size_t>(Tier::kGpu)];
  return {.plan = best.planned.plan,
          .profile = setup.evidence.stack.name,
          .software = software_title(setup.evidence.stack),
          .fingerprint = best.planned.fingerprint,
          .step = best.time.sim.period,
          .interval = best.time.certainty.interval,
          .tokens_per_second = throughput.tokens_per_second,
          .mfu = throughput.mfu,
          .gap = 0,
          .devices = setup.cluster.devices(),
          .gpus = static_cast<int>(best.planned.plan.parallel.ranks()),
          .all_gpus = setup.cluster.devices(),
          .gpu_memory = gpu.peak,
          .gpu_free = gpu.fits() ? gpu.available() - gpu.peak : Bytes{0},
          .run = run_of(best, command.questions.front().command),
          .limited_by = best.time.sim.limited_by,
          .objective = {},
          .uses = std::move(uses),
          .found_with = {},
          .searched = {}};
}

void say_objective(const Answer& answer, SweepPlan& found) {
  if (answer.objective.question.what == Objective::kFastest) return;
  found.objective = objective_value(answer.objective, *objective_step(answer));
}

SweepRow answered(const SweepCommand& command, std::size_t i, std::optional<Setup>& setup) {
  try {
    Answer answer = find_answer(command.questions[i].command);
    if (InterruptGuard::interrupted()) return {RowState::kStopped, "", "", {}};
    if (fits(answer)) {
      setup = Setup{answer.model, answer.cluster, answer.evidence};
      SweepRow row{RowState::kFits, "", "", plan_of(*answer.best, *setup, command)};
      row.found->gap = answer.search.stats.gap;
      if (answer.pins.ranks > 0)  // as --gpus or the objective has it
        row.found->devices = static_cast<int>(row.found->plan.parallel.ranks());
      say_objective(answer, *row.found);
      return row;
    }
    const auto& closest = answer.search.closest;
    return {RowState::kDoesNotFit,
            misfit_line(answer),
            closest ? shortage(*closest->infeasible) : "",
            {}};
  } catch (const Error& error) {
    if (error.code() != ExitCode::kBadInput) throw;
    return {RowState::kIllegal, error.what(), error.what(), {}};
  }
}

// What is wrong with a name is wrong with every question.
void check_names(const SweepCommand& command) {
  std::set<std::string> seen;
  for (const SweepCommand::Question& question : command.questions) {
    if (seen.insert("model " + question.command.model).second) {
      const NamedModel named = load_named_model(question.command.model);
      tell_left_out(named.model.name, named.left_out);
    }
    if (seen.insert("cluster " + question.command.cluster).second)
      load_cluster(question.command.cluster);
  }
}

void tell(const SweepCommand& command, std::size_t i, const SweepRow& row) {
  const std::string what = row.found ? fmt::format("{} a step", format_seconds(row.found->step))
                                     : std::string(name(row.state));
  complain(fmt::format("sweeping: {} of {}: {}: {}", i + 1, command.questions.size(),
                       point_words(command.axes, command.questions[i].at), what));
}

// Whether two questions ask the same of hardware that differs in one value, which follows that of
// the other on its axis.
bool are_neighbours(const SweepCommand& command, std::size_t i, std::size_t j) {
  int steps = 0;
  for (std::size_t axis = 0; axis < command.axes.size(); ++axis) {
    const auto& [name, values] = command.axes[axis];
    const auto place = [&](std::size_t k) {
      return std::find(values.begin(), values.end(), command.questions[k].at[axis]) -
             values.begin();
    };
    const auto apart = std::abs(place(i) - place(j));
    if (apart > 0 && (!is_quantity(name) || is_layout(find_quantity(name).name))) return false;
    steps += static_cast<int>(apart);
  }
  return steps == 1;
}

std::optional<SweepPlan> on(const Setup& setup, const Plan& plan, const SweepCommand& command) {
  FoundPlan found{.planned = build_job(plan, setup.model), .memory = {}, .time = {}};
  found.memory = predict_memory(found.planned, setup.cluster);
  if (found.memory.infeasible) return std::nullopt;
  found.time = predict_time(found.planned, setup.cluster, setup.evidence);
  return plan_of(found, setup, command);
}

// Where the other row's plan is faster here by more than ties are, takes it.
void try_plan_of(const SweepRow& other, const std::string& point, const SweepCommand& command,
                 const Setup& setup, SweepRow& row) {
  if (other.found->fingerprint == row.found->fingerprint) return;
  std::optional<SweepPlan> here = on(setup, other.found->plan, command);
  if (!here || here->step.value > row.found->step.value * (1 - kTieTolerance)) return;
  const double bound = row.found->step.value * (1 - row.found->gap);
  here->devices = row.found->devices;
  here->gap = std::max(0.0, 1 - bound / here->step.value);
  here->searched = row.found->searched.value_or(row.found->step);
  here->found_with = other.found->found_with.empty() ? point : other.found->found_with;
  row.found = std::move(here);
}

// Up and down the axes, so that a plan reaches all rows that it is good for.
void share_plans(const SweepCommand& command, const std::vector<std::optional<Setup>>& setups,
                 std::vector<SweepRow>& rows) {
  Progress progress;
  const auto count = rows.size();
  for (std::size_t step = 0; step < 2 * count; ++step) {
    const bool up = step < count;
    const std::size_t i = up ? step : 2 * count - 1 - step;
    if (InterruptGuard::interrupted())
      return complain("interrupted: rows have not tried all plans of their neighbours");
    for (std::size_t j = up ? 0 : i + 1; rows[i].found && j < (up ? i : count); ++j) {
      if (!rows[j].found || !are_neighbours(command, i, j)) continue;
      if (rows[j].found->profile != rows[i].found->profile) continue;
      progress.show(fmt::format("sweeping: plans of other rows, {} of {}", step + 1, 2 * count));
      try_plan_of(rows[j], point_words(command.axes, command.questions[j].at), command, *setups[i],
                  rows[i]);
    }
  }
}

}  // namespace

std::string_view name(RowState state) {
  constexpr std::string_view kNames[] = {"fits", "does not fit", "not legal", "stopped", "not run"};
  return kNames[static_cast<std::size_t>(state)];
}

std::vector<SweepRow> sweep(const SweepCommand& command) {
  check_names(command);
  std::vector<SweepRow> rows(command.questions.size());
  std::vector<std::optional<Setup>> setups(rows.size());
  const InterruptGuard guard;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    rows[i] = answered(command, i, setups[i]);
    tell(command, i, rows[i]);
    if (InterruptGuard::interrupted()) return rows;
  }
  if (command.questions.front().command.objective.what == Objective::kFastest)
    share_plans(command, setups, rows);
  return rows;
}

}  // namespace zplan
