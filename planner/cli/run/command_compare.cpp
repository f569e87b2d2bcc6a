#include <fmt/format.h>

#include "planner/cli/commands.h"
#include "planner/cli/frame/output.h"
#include "planner/cli/frame/table.h"
#include "planner/cli/frame/words.h"
#include "planner/core/error.h"
#include "planner/core/json_reader.h"
#include "planner/core/quantity.h"
#include "planner/program/timeline/comparison.h"

namespace zplan {
namespace {

std::string operations(const ComparedRow& row) {
  const std::int64_t predicted = row.predicted.operations, measured = row.measured.operations;
  if (predicted == measured) return grouped(predicted);
  return fmt::format("{} / {}", grouped(predicted), grouped(measured));
}

std::string ratio_words(Seconds predicted, Seconds measured) {
  const auto quotient = ratio(predicted, measured);
  return quotient ? fmt::format("{:.2f}", *quotient) : "-";
}

void add_row(Table& table, const ComparedRow& row, std::string_view indent) {
  const Seconds predicted = row.predicted.time, measured = row.measured.time;
  table.row({fmt::format("{}{}", indent, row.name), operations(row), format_seconds(predicted),
             format_seconds(measured), ratio_words(predicted, measured)});
}

void add_rows(Table& table, const std::string& title, const std::vector<ComparedRow>& rows) {
  table.row({title, "", "", "", ""});
  for (const ComparedRow& row : rows) add_row(table, row, "  ");
}

std::string alone(std::string_view whose, const ComparedSide& side) {
  if (side.operations == 0) return "";
  return fmt::format("only {}: {} of {}\n", whose, count_of(side.operations, "operation"),
                     format_seconds(side.time));
}

std::string comparison_text(const Comparison& c) {
  Table table({Align::kLeft, Align::kRight, Align::kRight, Align::kRight, Align::kRight},
              {"", "operations", "predicted", "measured", "measured/predicted"});
  table.row({"step", "", format_seconds(c.predicted_period), format_seconds(c.measured_period),
             ratio_words(c.predicted_period, c.measured_period)});
  add_row(table, c.total, "");
  add_rows(table, "by kind", c.kinds);
  add_rows(table, "by phase", c.phases);
  add_rows(table, "by lane", c.lanes);
  add_rows(table, "by part of the model", c.parts);
  return fmt::format(
      "{}{}{}\nOperations of one step, one rank of each stage, joined by {}: medians over ranks "
      "and "
      "{}\npredicted, {} measured. Lanes run side by side, so operations do not add up to the "
      "step.\n",
      table.text(), alone("predicted", c.only_predicted), alone("measured", c.only_measured),
      c.join == JoinBy::kRole ? "role" : "operation", count_of(c.predicted_steps, "step"),
      grouped(c.measured_steps));
}

std::string_view source_words(std::string_view source) {
  return source == "sim" ? "simulation" : "run";
}

Timeline read_timeline(const std::string& path, std::string_view source) {
  Timeline timeline = timeline_from_json(read_text_file(path), path);
  if (timeline.source == source) return timeline;
  throw_bad_input(fmt::format("{}: expected the timeline of a {}, got that of a {}", path,
                              source_words(source), source_words(timeline.source)));
}

// Of fewer steps a median can be far off: [derived] with five, two may be disturbed.
constexpr std::int64_t kFewestSteps = 5;

void warn_of_few_steps(const Comparison& c) {
  if (c.measured_steps >= kFewestSteps) return;
  complain(fmt::format(
      "warning: medians over {} only; a run of {} steps or more gives {} after the first",
      count_of(c.measured_steps, "measured step"), kFewestSteps + 1, kFewestSteps));
}

}  // namespace

ExitCode execute(const CompareCommand& command) {
  const Timeline predicted = read_timeline(command.simulated, "sim");
  const Timeline measured = read_timeline(command.executed, "exec");
  const Comparison comparison = compare(predicted, measured, command.join);
  if (command.join == JoinBy::kRole && predicted.fingerprint != measured.fingerprint)
    complain(
        "warning: the timelines are of different jobs; joined by role, they may do different work");
  warn_of_few_steps(comparison);
  write_stdout(command.json ? to_json(comparison) : comparison_text(comparison));
  return ExitCode::kOk;
}

}  // namespace zplan
