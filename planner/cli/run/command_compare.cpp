#include <fmt/format.h>

#include <algorithm>

#include "planner/cli/commands.h"
#include "planner/cli/frame/output.h"
#include "planner/cli/frame/table.h"
#include "planner/cli/frame/words.h"
#include "planner/cli/run/comparison_output.h"
#include "planner/core/error.h"
#include "planner/core/json_reader.h"
#include "planner/program/timeline/comparison.h"

namespace zplan {
namespace {

std::string operations(const ComparedRow& row) {
  const std::int64_t predicted = row.predicted.operations, measured = row.measured.operations;
  if (predicted == measured) return grouped(predicted);
  return fmt::format("{} / {}", grouped(predicted), grouped(measured));
}

Sheet row_sheet(const ComparedRow& row, std::string_view indent) {
  const Seconds predicted = row.predicted.time, measured = row.measured.time;
  return {{"what", only_words(fmt::format("{}{}", indent, row.name))},
          {"name", row.name},
          {"predicted_operations", row.predicted.operations},
          {"measured_operations", row.measured.operations},
          {"operations", right(only_words(operations(row)))},
          {"predicted_s", predicted},
          {"measured_s", measured},
          {"ratio", ratio_value(predicted, measured)}};
}

Sheet side_sheet(const std::string& fingerprint, std::int64_t steps) {
  return {{"fingerprint", fingerprint}, {"steps", steps}};
}

Sheet alone_sheet(std::string_view whose, const ComparedSide& side) {
  Sheet out{{"operations", counted(side.operations, "operation")}, {"time_s", side.time}};
  if (side.operations > 0) out.say("only {}: {operations} of {time_s}", {whose});
  return out;
}

}  // namespace

Value ratio_value(Seconds predicted, Seconds measured) {
  const auto quotient = ratio(predicted, measured);
  return quotient ? number("{:.2f}", *quotient) : Value(nullptr, "-");
}

Sheet comparison_sheet(const Comparison& c) {
  Table table({"what:", "operations", "predicted_s: predicted", "measured_s: measured",
               "ratio: measured/predicted"});
  const auto rows = [&table](const char* title, const std::vector<ComparedRow>& list) {
    table.words_row({title, "", "", "", ""});
    Value out = empty_array();
    for (const ComparedRow& row : list) out.append(table.row(row_sheet(row, "  ")));
    return out;
  };
  const Sheet step{{"what", only_words("step")},
                   {"predicted_s", c.predicted_period},
                   {"measured_s", c.measured_period},
                   {"ratio", ratio_value(c.predicted_period, c.measured_period)}};
  Sheet out("zplan.comparison/1");
  out.facts({{"joined_by", c.join == JoinBy::kRole ? "role" : "operation"},
             {"predicted", side_sheet(c.predicted_fingerprint, c.predicted_steps)},
             {"measured", side_sheet(c.measured_fingerprint, c.measured_steps)},
             {"step", table.row(step)},
             {"total", table.row(row_sheet(c.total, ""))},
             {"kinds", rows("by kind", c.kinds)},
             {"phases", rows("by phase", c.phases)},
             {"lanes", rows("by lane", c.lanes)},
             {"parts", rows("by part of the model", c.parts)},
             {"only_predicted", alone_sheet("predicted", c.only_predicted)},
             {"only_measured", alone_sheet("measured", c.only_measured)}});
  out.print(table.text());
  out.show({"only_predicted", "only_measured"});
  out.print(
      out.filled("\nOperations of one step, one rank of each stage, joined by {joined_by}: "
                 "medians over ranks and {}\npredicted, {} measured. Lanes run side by side, "
                 "so operations do not add up to the step.\n",
                 {count_of(c.predicted_steps, "step"), grouped(c.measured_steps)}));
  return out;
}

namespace {

bool is_plan(const JsonNode& root) {
  if (!root.is_object()) return false;
  const auto members = root.members();
  return std::ranges::any_of(members, [](const auto& member) {
    return member.first == "schema" && member.second.is_string() &&
           member.second.string().starts_with("zplan.plan/");
  });
}

std::string_view source_words(std::string_view source) {
  return source == "sim" ? "simulation" : "run";
}

}  // namespace

Timeline read_timeline(const std::string& path, std::string_view source) {
  const std::string text = read_text_file(path);
  if (is_plan(parse_json(text, path)))
    throw_bad_input(fmt::format(
        "{}: expected the timeline of a {}, got a plan; plans are compared by: zplan diff {} ..",
        path, source_words(source), path));
  Timeline timeline = timeline_from_json(text, path);
  if (timeline.source == source) return timeline;
  throw_bad_input(fmt::format("{}: expected the timeline of a {}, got that of a {}", path,
                              source_words(source), source_words(timeline.source)));
}

namespace {

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
  write_answer(comparison_sheet(comparison), command.json);
  return ExitCode::kOk;
}

}  // namespace zplan
