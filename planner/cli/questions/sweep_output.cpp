#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "hwprofiles/quantities.h"
#include "planner/cli/frame/table.h"
#include "planner/cli/frame/words.h"
#include "planner/cli/questions/sweep_rows.h"
#include "planner/core/json_reader.h"
#include "planner/core/quantity.h"
#include "planner/search/search.h"

namespace zplan {
namespace {

double tokens_per_device(const SweepPlan& found) {
  return found.tokens_per_second / std::max(1, found.devices);
}

Value count_value(double number) { return right({number, grouped(std::llround(number))}); }

// Of a plan that was found; null in other rows.
constexpr const char* kFoundKeys[] = {
    "step_s",     "low_s",       "high_s",           "tokens_per_s",    "tokens_per_s_per_device",
    "mfu",        "gap",         "gpu_memory_bytes", "parallel",        "family",
    "limited_by", "fingerprint", "found_with",       "searched_step_s", "objective"};

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
             {"fingerprint", found.fingerprint}});
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

std::string verdict(const SweepCommand& command, const std::vector<SweepRow>& rows) {
  const auto count = [&](RowState state) {
    return std::count_if(rows.begin(), rows.end(),
                         [&](const SweepRow& row) { return row.state == state; });
  };
  const auto all = static_cast<std::int64_t>(rows.size());
  const std::int64_t left = count(RowState::kNotRun) + count(RowState::kStopped);
  std::string line =
      left > 0 ? fmt::format("Interrupted after {} of {}; so far: ", all - left, all) : "";
  line += fmt::format("{} of {} fit", count(RowState::kFits), count_of(all, "question"));
  const auto where = [&](const SweepRow* row) {
    return point_words(command.axes,
                       command.questions[static_cast<std::size_t>(row - rows.data())].at);
  };
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

Table rows_table(const SweepCommand& command, const std::vector<SweepRow>& rows) {
  std::vector<Column> columns;
  for (const GridAxis& axis : command.axes) columns.emplace_back(axis_key(axis), axis.name);
  for (const char* const shown :
       {"step_s: step", "tokens_per_s: tokens/s", "tokens_per_s_per_device: per GPU", "mfu: MFU",
        "gap", "parallel: ranks", "family: plan", "limited_by: limited by"})
    columns.emplace_back(shown);
  const Objective asked = command.questions.front().command.objective.what;
  if (asked != Objective::kFastest) columns.emplace_back("objective", name(asked));
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
  out.print(line + "\n\n");
  out.table("rows", rows_table(command, rows));
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
