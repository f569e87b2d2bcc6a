#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>

#include "hwprofiles/quantities.h"
#include "planner/cli/frame/table.h"
#include "planner/cli/frame/words.h"
#include "planner/cli/questions/sweep_rows.h"
#include "planner/cli/sizing/goodput_answer.h"
#include "planner/core/json_reader.h"
#include "planner/core/quantity.h"
#include "planner/core/text.h"
#include "planner/search/search.h"

namespace zplan {
namespace {

double tokens_per_device(const SweepPlan& found) {
  return found.tokens_per_second / std::max(1, found.devices);
}

// "64", "16 of 64"
std::string gpus_words(const SweepPlan& found) {
  if (found.gpus == found.all_gpus) return grouped(found.gpus);
  return fmt::format("{} of {}", grouped(found.gpus), grouped(found.all_gpus));
}

Value count_value(double number) { return right({number, grouped(std::llround(number))}); }

// Of a plan that was found; null in other rows.
constexpr const char* kFoundKeys[] = {"step_s",
                                      "low_s",
                                      "high_s",
                                      "tokens_per_s",
                                      "tokens_per_s_per_device",
                                      "mfu",
                                      "gap",
                                      "gpu_memory_bytes",
                                      "parallel",
                                      "family",
                                      "limited_by",
                                      "fingerprint",
                                      "found_with",
                                      "searched_step_s",
                                      "objective",
                                      "software",
                                      "gpus",
                                      "gpus_of_cluster",
                                      "days",
                                      "gpu_hours",
                                      "money"};

std::string axis_key(const GridAxis& axis) { return "at " + axis.name; }

// Its place, its state and what was found.
Sheet row_facts(const SweepCommand& command, std::size_t i, const SweepRow& row) {
  Sheet at, out;
  for (std::size_t axis = 0; axis < command.axes.size(); ++axis) {
    const std::string& value = command.questions[i].at[axis];
    at.fact(command.axes[axis].name, value);
    out.fact(axis_key(command.axes[axis]), only_words(right(value)));
  }
  out.facts({{"at", at}, {"state", name(row.state)}, {"reason", row.reason}});
  for (const char* const key : kFoundKeys) out.fact(key, nullptr);
  if (!row.found) {
    out.fact("step_s", Value(nullptr, std::string(name(row.state))));
    return out;
  }
  const SweepPlan& found = *row.found;
  out.facts({{"step_s", right(found.step)},
             {"low_s", found.interval.low},
             {"high_s", found.interval.high},
             {"tokens_per_s", count_value(found.tokens_per_second)},
             {"tokens_per_s_per_device", count_value(tokens_per_device(found))},
             {"mfu", right(share(found.mfu))},
             {"gap", right(share(found.gap))},
             {"gpu_memory_bytes", found.gpu_memory},
             {"parallel", ranks_words(found.plan)},
             {"family", name(family_of(found.plan))},
             {"limited_by", found.limited_by},
             {"fingerprint", found.fingerprint},
             {"software", Value(found.profile, found.software)},
             {"gpus", right({found.gpus, gpus_words(found)})},
             {"gpus_of_cluster", found.all_gpus}});
  if (found.run)
    out.facts({{"days", right({found.run->days(), run_words(found.run->time)})},
               {"gpu_hours", right({found.run->gpu_hours, amount_words(found.run->gpu_hours)})}});
  if (found.run && found.run->money)
    out.fact("money", right({*found.run->money, amount_words(*found.run->money)}));
  if (!found.objective.empty()) out.fact("objective", found.objective);
  if (found.searched)
    out.facts({{"found_with", found.found_with}, {"searched_step_s", *found.searched}});
  return out;
}

// The row with the most of something, of those with a plan; null: none has one.
template <typename Measure>
const SweepRow* most(const std::vector<SweepRow>& rows, Measure measure) {
  const SweepRow* best = nullptr;
  for (const SweepRow& row : rows)
    if (row.found && (best == nullptr || measure(*row.found) > measure(*best->found))) best = &row;
  return best;
}

const PlanCommand& first_question(const SweepCommand& command) {
  return command.questions.front().command;
}

// The row with most of what is asked for, and what it has of it: "Cheapest: nodes=1: ..; ".
std::string best_words(const SweepCommand& command, const std::vector<SweepRow>& rows,
                       const std::function<std::string(const SweepRow*)>& where) {
  const PlanCommand& question = first_question(command);
  const auto say = [&](std::string_view what, auto measure, auto value) -> std::string {
    const SweepRow* const best = most(rows, measure);
    if (best == nullptr) return "";
    return fmt::format("{}: {}, {}; ", what, where(best), value(*best->found));
  };
  const auto objective = [](const SweepPlan& found) { return found.objective; };
  const auto run = [](const SweepPlan& found) {
    return fmt::format(
        "{} on {} and {}{}", run_words(found.run->time), count_of(found.gpus, "GPU"),
        hours_words(found.run->gpu_hours),
        found.run->money ? fmt::format(", {}", amount_words(*found.run->money)) : "");
  };
  switch (question.objective.what) {
    case Objective::kFastest:
      if (question.tokens <= 0) return "";  // most tokens/s says so
      return say(
          "Fastest", [](const SweepPlan& found) { return -found.run->time.value; }, run);
    case Objective::kCheapest: {
      const auto least = [](const SweepPlan& found) {
        return -static_cast<double>(found.gpus) / found.tokens_per_second;
      };
      return question.tokens > 0 ? say("Cheapest", least, run) : say("Cheapest", least, objective);
    }
    case Objective::kFewestGpus:
      return say(
          "Fewest GPUs", [](const SweepPlan& found) { return -found.gpus; }, objective);
    case Objective::kLongestSequence:
      return say(
          "Longest sequence", [](const SweepPlan& found) { return found.plan.batch.sequence; },
          objective);
    case Objective::kMostHeadroom:
      return say(
          "Most memory left", [](const SweepPlan& found) { return found.gpu_free.value; },
          objective);
  }
  return "";
}

std::string verdict(const SweepCommand& command, const std::vector<SweepRow>& rows) {
  const auto count = [&](RowState state) {
    return std::count_if(rows.begin(), rows.end(),
                         [&](const SweepRow& row) { return row.state == state; });
  };
  const auto all = static_cast<std::int64_t>(rows.size());
  const std::int64_t left = count(RowState::kNotRun) + count(RowState::kStopped);
  std::string line =
      left > 0 ? fmt::format("Interrupted after {} of {}; so far: ", all - left, all) : "";
  const auto where = [&](const SweepRow* row) {
    return point_words(command.axes,
                       command.questions[static_cast<std::size_t>(row - rows.data())].at);
  };
  line += best_words(command, rows, where);
  line += fmt::format("{} of {} fit", count(RowState::kFits), count_of(all, "question"));
  const auto tokens = [](const SweepPlan& found) { return found.tokens_per_second; };
  if (const SweepRow* fastest = most(rows, tokens)) {
    const SweepRow* const leanest = most(rows, tokens_per_device);
    line += fmt::format("; most tokens/s {} with {}; most per GPU {} with {}",
                        grouped(std::llround(fastest->found->tokens_per_second)), where(fastest),
                        grouped(std::llround(tokens_per_device(*leanest->found))), where(leanest));
  }
  return line;
}

Value axes_value(const SweepCommand& command) {
  return each(command.axes, [](const GridAxis& axis) {
    return Sheet{{"name", axis.name}, {"values", axis.values}};
  });
}

bool names_software(const SweepCommand& command) {
  return std::ranges::all_of(command.questions, [](const SweepCommand::Question& question) {
    return !question.command.stack.empty() || !question.command.anchor.empty();
  });
}

// What each row takes.
Table rows_table(const SweepCommand& command, const std::vector<SweepRow>& rows) {
  std::vector<Column> columns;
  for (const GridAxis& axis : command.axes) columns.emplace_back(axis_key(axis), axis.name);
  const auto is_any = [&](auto is) {
    return std::ranges::any_of(
        rows, [&](const SweepRow& row) { return row.found.has_value() && is(*row.found); });
  };
  const bool has_runs = is_any([](const SweepPlan& found) { return found.run.has_value(); });
  columns.emplace_back("step_s: step");
  if (!has_runs) columns.emplace_back("tokens_per_s: tokens/s");
  columns.emplace_back("tokens_per_s_per_device: per GPU");
  columns.emplace_back("mfu: MFU");
  if (is_any([](const SweepPlan& found) { return found.gpus != found.all_gpus; }))
    columns.emplace_back("gpus: GPUs");
  if (has_runs) {
    columns.emplace_back("days: run");
    columns.emplace_back("gpu_hours: GPU-hours");
  }
  if (is_any([](const SweepPlan& found) { return found.run && found.run->money; }))
    columns.emplace_back("money");
  if (!names_software(command)) columns.emplace_back("software");
  Table table(std::move(columns));
  for (std::size_t i = 0; i < rows.size(); ++i) {
    table.row(row_facts(command, i, rows[i]));
    if (!rows[i].reason_word.empty()) table.below(paragraph(rows[i].reason_word, 4));
    if (rows[i].found && rows[i].found->searched)
      table.below(paragraph(
          fmt::format("the plan of {}; the search of this row found {}", rows[i].found->found_with,
                      format_seconds(*rows[i].found->searched)),
          4));
  }
  return table;
}

// The plan of each row that has one.
std::string plans_table(const SweepCommand& command, const std::vector<SweepRow>& rows) {
  std::vector<Column> columns;
  for (const GridAxis& axis : command.axes) columns.emplace_back(axis_key(axis), axis.name);
  columns.emplace_back("parallel: ranks");
  columns.emplace_back("family: plan");
  const Objective asked = first_question(command).objective.what;
  const bool is_shown_above = asked == Objective::kFastest || asked == Objective::kFewestGpus ||
                              first_question(command).tokens > 0;
  if (is_shown_above) columns.emplace_back("limited_by: limited by");
  columns.emplace_back("gap");
  if (!is_shown_above) columns.emplace_back("objective", name(asked));
  Table table(std::move(columns));
  for (std::size_t i = 0; i < rows.size(); ++i)
    if (rows[i].found) table.row(row_facts(command, i, rows[i]));
  const std::string text = table.text();
  return text.empty() ? "" : "\n" + text;
}

// "NeMo 2024", of --for; nothing where each row says its own.
std::string asked_software(const SweepCommand& command, const std::vector<SweepRow>& rows) {
  if (!names_software(command)) return "";
  std::vector<std::string> titles;
  for (const SweepRow& row : rows)
    if (row.found && std::ranges::find(titles, row.found->software) == titles.end())
      titles.push_back(row.found->software);
  return titles.empty() ? "" : paragraph("Software: " + joined(titles, ", "));
}

// Whether rows that differ in this axis alone take as long as the first of them.
bool changes_nothing(const SweepCommand& command, const std::vector<SweepRow>& rows,
                     std::size_t axis) {
  constexpr double kNoDifference = 0.005;
  std::map<std::vector<std::string>, double> first;  // by the other coordinates
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (!rows[i].found) return false;
    std::vector<std::string> at = command.questions[i].at;
    at[axis].clear();
    const double step = rows[i].found->step.value;
    const double before = first.emplace(std::move(at), step).first->second;
    if (std::abs(step / before - 1) > kNoDifference) return false;
  }
  return true;
}

bool keeps_some_near(const Plan& plan) {
  return std::any_of(std::begin(kModelStates), std::end(kModelStates),
                     [&](ModelState state) { return plan.placement.near(state).has_value(); });
}

// A quantity that nothing follows, and what its plan has to do with it.
std::vector<std::string> idle_axes(const SweepCommand& command, const std::vector<SweepRow>& rows) {
  std::vector<std::string> lines;
  for (std::size_t axis = 0; axis < command.axes.size(); ++axis) {
    const auto& [name, values] = command.axes[axis];
    if (!is_quantity(name) || values.size() < 2 || !changes_nothing(command, rows, axis)) continue;
    const std::string& use = rows.front().found->uses[axis];
    std::string line = fmt::format("No step of these follows {}", name);
    if (!use.empty())
      line += fmt::format(": in the plan of {} {}",
                          point_words(command.axes, command.questions.front().at), use);
    const Plan& plan = rows.front().found->plan;
    if (keeps_some_near(plan)) line += fmt::format("; {}", placement_words(plan));
    lines.push_back(line);
  }
  return lines;
}

std::string csv_field(const Value& value) {
  const JsonNode plain = parse_json(value.json, "a value of the sweep");
  if (plain.is_null()) return "";
  if (!plain.is_string()) return value.json;
  const std::string text = plain.string();
  if (text.find_first_of(",\"\r\n") == text.npos) return text;
  std::string quoted = "\"";
  for (const char c : text) quoted += c == '"' ? "\"\"" : std::string(1, c);
  return quoted + "\"";
}

}  // namespace

Sheet sweep_sheet(const SweepCommand& command, const std::vector<SweepRow>& rows) {
  Sheet out("zplan.sweep/1");
  const std::string line = verdict(command, rows);
  out.facts({{"verdict", line}, {"axes", axes_value(command)}});
  out.print(paragraph(line));
  out.print(asked_software(command, rows) + "\n");
  out.table("rows", rows_table(command, rows));
  out.print(plans_table(command, rows));
  for (const std::string& idle : idle_axes(command, rows)) out.print("\n" + paragraph(idle));
  return out;
}

std::string sweep_csv(const SweepCommand& command, const std::vector<SweepRow>& rows) {
  std::string out;
  for (const GridAxis& axis : command.axes) out += csv_field(axis.name) + ",";
  out += "state";
  for (const char* const key : kFoundKeys) out += fmt::format(",{}", key);
  out += ",reason\n";
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const Sheet facts = row_facts(command, i, rows[i]);
    for (const std::string& value : command.questions[i].at) out += csv_field(value) + ",";
    out += csv_field(facts["state"]);
    for (const char* const key : kFoundKeys) out += "," + csv_field(facts[key]);
    out += "," + csv_field(facts["reason"]) + "\n";
  }
  return out;
}

}  // namespace zplan
