#include <fmt/format.h>

#include <utility>

#include "planner/cli/predict/expert_load.h"
#include "planner/cli/report/report.h"
#include "planner/cli/run/comparison_output.h"
#include "planner/core/error.h"
#include "planner/plan/plan_question.h"

namespace zplan {
namespace {

PlanSource source_of(const ReportCommand& command, const std::string& plan) {
  PlanSource source;
  source.plan = plan;
  source.question.cluster = command.cluster;
  source.question.stack = command.stack;
  source.question.measured = command.measured;
  if (!command.measured.is_empty() && !command.plans.empty())
    source.question.measured_plan = command.plans.front();
  source.question.headroom = command.headroom;
  source.question.threads = command.threads;
  source.question.ignore_capacity = true;  // what does not fit is shown, too
  return source;
}

// The plan in detail: the first file, or the one that is found.
PlanSource first_source(const ReportCommand& command) {
  if (!command.plans.empty()) return source_of(command, command.plans.front());
  PlanSource source = source_of(command, "");
  source.question.model = command.question.model;
  source.question.pins = command.question.pins;
  return source;
}

// The timeline is folded unless it is to be compared.
ReportedPlan reported(const std::string& file, const ChosenPlan& chosen, bool records, bool folds) {
  const sim::SimOptions options{
      .record_timeline = records, .fingerprint = {}, .fold_timeline = folds};
  TimePrediction time = predict_time(chosen.planned, chosen.cluster, chosen.evidence, options);
  time.experts = expert_load(chosen.planned, chosen.cluster);
  return {file,
          {.planned = chosen.planned,
           .cluster = chosen.cluster,
           .memory = chosen.memory,
           .time = std::move(time),
           .anchors = chosen.anchors,
           .memory_calibration = chosen.memory_calibration}};
}

// The answer to the question that the plan answers, too: what else trains the same thing on the
// same cluster.
Answer search_beside(const ReportCommand& command, const ChosenPlan& chosen) {
  const Plan& plan = chosen.planned.plan;
  PlanCommand question = source_of(command, "").question;
  question.model = plan.model;
  question.cluster = command.cluster.empty() ? plan.hardware : command.cluster;
  question.pins = question_of(plan);
  if (question.stack.empty()) question.stack = chosen.evidence.stack.name;
  return find_answer(question);
}

Comparison compare_with_run(const Timeline& predicted, const ReportCommand& command) {
  const Timeline run = read_timeline(command.timeline, "exec");
  if (run.fingerprint != predicted.fingerprint)
    throw_bad_input(
        fmt::format("--measured: {} is of another plan than {}, or of another version "
                    "of it: expected fingerprint {}, got {}",
                    command.timeline, first_name(command), predicted.fingerprint, run.fingerprint));
  return compare(predicted, run, JoinBy::kOperation);
}

}  // namespace

std::string first_name(const ReportCommand& command) {
  return command.plans.empty() ? "the plan found" : command.plans.front();
}

std::optional<Report> make_report(const ReportCommand& command) {
  std::optional<PlanPrices> prices = find_prices({.source = first_source(command), .check = false});
  if (!prices) return std::nullopt;
  const bool compares = !command.timeline.empty();
  Answer answer = search_beside(command, prices->chosen);
  Report report{.plans = {reported(first_name(command), prices->chosen, true, !compares)},
                .prices = *std::move(prices),
                .timeline = {},
                .answer = std::move(answer),
                .roofline = {},
                .grid = {},
                .measured = {}};
  report.timeline = std::move(report.plans.front().simulation.time->sim.timeline);
  if (compares) report.measured = compare_with_run(report.timeline, command);
  for (std::size_t i = 1; i < command.plans.size(); ++i) {
    const auto other = choose_plan(source_of(command, command.plans[i]));
    ZPLAN_ASSERT(other.has_value());
    report.plans.push_back(reported(command.plans[i], *other, false, true));
  }
  const Simulation& first = report.plans.front().simulation;
  report.roofline = roofline_of(first.planned.job, first.cluster, first.time->split.stage);
  report.grid = step_grid(report.prices);
  return report;
}

}  // namespace zplan
