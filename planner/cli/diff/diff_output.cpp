#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "planner/cli/diff/diff.h"
#include "planner/cli/frame/table.h"
#include "planner/cli/frame/words.h"
#include "planner/core/quantity.h"
#include "planner/core/text.h"

namespace zplan {
namespace {

constexpr double kSame = 0.005;         // share of a step that is not called a difference
constexpr double kWorthTelling = 0.01;  // of the longer step
constexpr std::size_t kMostRoles = 16;  // shown; JSON has all
constexpr double kShown = 1e-4;         // of the longer step

const sim::SimResult& sim_of(const DiffSide& side) { return side.time.sim; }
const sim::SimResult& step_of(const PlanDiff& diff, int side) {
  return sim_of(diff.sides[static_cast<std::size_t>(side)]);
}
Seconds longer_step(const PlanDiff& diff) {
  return std::max(step_of(diff, 0).period, step_of(diff, 1).period);
}

std::string signed_seconds(Seconds time) {
  if (time.value == 0) return "-";
  return (time.value < 0 ? "-" : "+") + format_seconds({std::abs(time.value)});
}
Value seconds_value(Seconds time) {
  return right({Value(time.value), time.value == 0 ? "-" : format_seconds(time)});
}

std::int64_t tokens_of(const DiffSide& side) {
  return side.planned.plan.batch.global_batch * side.planned.plan.batch.sequence;
}

// Of recomputation, on the compute lanes of the stages.
Seconds recomputed(const DiffSide& side) {
  Seconds sum{};
  for (const auto& [key, time] : side.roles)
    if (key.role.phase == Phase::kRecompute && key.lane == Lane::kCompute) sum += time.time;
  return sum;
}

// What of the step differs most: "0.40 s more compute".
std::vector<std::string> part_words(const PlanDiff& diff) {
  std::vector<std::pair<double, std::string>> moved;
  for (int part = 0; part < sim::kTimePartCount; ++part) {
    const auto of = [&](int side) {
      return step_of(diff, side).split.parts[static_cast<std::size_t>(part)];
    };
    const double by = of(1).value - of(0).value;
    if (std::abs(by) < kWorthTelling * longer_step(diff).value) continue;
    moved.emplace_back(-std::abs(by), fmt::format("{} {} {}", format_seconds({std::abs(by)}),
                                                  by > 0 ? "more" : "less",
                                                  name(static_cast<sim::TimePart>(part))));
  }
  std::stable_sort(moved.begin(), moved.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  constexpr std::size_t kMostParts = 3;
  std::vector<std::string> words;
  for (const auto& [by, text] : moved)
    if (words.size() < kMostParts) words.push_back(text);
  return words;
}

std::vector<std::string> reasons(const PlanDiff& diff) {
  std::vector<std::string> words;
  const Seconds before = recomputed(diff.sides[0]), after = recomputed(diff.sides[1]);
  if (before.value > 0 && after.value == 0) words.emplace_back("it does not recompute");
  if (before.value == 0 && after.value > 0) words.emplace_back("it recomputes");
  for (std::string& text : part_words(diff)) words.push_back(std::move(text));
  return words;
}

std::string misfit(const DiffSide& side) {
  return side.memory.infeasible ? fmt::format("{} does not fit on {}: {}; ", side.file,
                                              side.cluster.name, shortage(*side.memory.infeasible))
                                : "";
}

std::string verdict(const PlanDiff& diff) {
  const DiffSide &a = diff.sides[0], &b = diff.sides[1];
  std::string line = misfit(a) + misfit(b);
  const bool same_work = tokens_of(a) == tokens_of(b);
  const double faster =
      same_work ? step_of(diff, 0).period.value / step_of(diff, 1).period.value
                : b.time.throughput.tokens_per_second / a.time.throughput.tokens_per_second;
  const std::string_view per = same_work ? "" : " in tokens per second";
  const std::string steps = fmt::format("a step {}, {}", format_seconds(step_of(diff, 0).period),
                                        format_seconds(step_of(diff, 1).period));
  if (std::abs(faster - 1) < kSame) {
    line += fmt::format("{} is as fast as {}{} ({})", b.file, a.file, per, steps);
  } else if (faster > 1) {
    line +=
        fmt::format("{} is {:.2f} times as fast as {}{} ({})", b.file, faster, a.file, per, steps);
  } else {
    line += fmt::format("{} is {:.2f} times as slow as {}{} ({})", b.file, 1 / faster, a.file, per,
                        steps);
  }
  const std::vector<std::string> why = reasons(diff);
  return why.empty() ? line : fmt::format("{}: {}", line, joined(why, ", "));
}

Table decisions_table(const PlanDiff& diff) {
  Table table({"decision", "before: A", "after: B"});
  for (const DecisionChange& change : diff.decisions)
    table.row({{"decision", change.pointer}, {"before", change.before}, {"after", change.after}});
  return table;
}

Table split_table(const PlanDiff& diff) {
  Table table({"part", "before_s: A", "after_s: B", "by: difference"});
  const auto add = [&](std::string_view part, Seconds before, Seconds after) {
    table.row({{"part", part},
               {"before_s", seconds_value(before)},
               {"after_s", seconds_value(after)},
               {"by", only_words(right(signed_seconds(after - before)))}},
              std::max(before, after).value >= kShown * longer_step(diff).value);
  };
  for (int part = 0; part < sim::kTimePartCount; ++part) {
    const auto i = static_cast<std::size_t>(part);
    add(name(static_cast<sim::TimePart>(part)), step_of(diff, 0).split.parts[i],
        step_of(diff, 1).split.parts[i]);
  }
  add("step", step_of(diff, 0).period, step_of(diff, 1).period);
  return table;
}

std::string signed_bytes(Bytes by) {
  if (by.value == 0) return "-";
  return (by.value < 0 ? "-" : "+") + format_bytes({std::abs(by.value)});
}

void add_memory(Table& table, std::string_view tier, std::string_view category, Bytes before,
                Bytes after) {
  table.row({{"tier", tier},
             {"category", category},
             {"before_bytes", right(before)},
             {"after_bytes", right(after)},
             {"by", only_words(right(signed_bytes(after - before)))}},
            before.value > 0 || after.value > 0);
}

// Per tier what is alive at its peak, by category, and the peak.
Table memory_table(const PlanDiff& diff) {
  Table table({"tier", "category", "before_bytes: A", "after_bytes: B", "by: difference"});
  for (int t = 0; t < kTierCount; ++t) {
    const auto i = static_cast<std::size_t>(t);
    const TierUse &before = diff.sides[0].memory.use[i], &after = diff.sides[1].memory.use[i];
    const std::string_view tier = name(static_cast<Tier>(t));
    for (int c = 0; c < kCategoryCount; ++c) {
      const auto k = static_cast<std::size_t>(c);
      add_memory(table, tier, name(static_cast<Category>(c)), before.by_category[k],
                 after.by_category[k]);
    }
    add_memory(table, tier, "peak", before.peak, after.peak);
  }
  return table;
}

Table roles_table(const PlanDiff& diff) {
  Table table({"role", "lane", "before_operations: A", "before_s: ", "after_operations: B",
               "after_s: ", "by: difference"});
  std::size_t shown = 0;
  for (const RoleDifference& row : diff.roles) {
    const Seconds by = row.sides[1].time - row.sides[0].time;
    const bool show = std::abs(by.value) >= kShown * longer_step(diff).value && shown < kMostRoles;
    shown += show ? 1 : 0;
    table.row({{"role", name(row.key.role)},
               {"lane", name(row.key.lane)},
               {"before_operations", right(row.sides[0].operations)},
               {"before_s", seconds_value(row.sides[0].time)},
               {"after_operations", right(row.sides[1].operations)},
               {"after_s", seconds_value(row.sides[1].time)},
               {"by", only_words(right(signed_seconds(by)))}},
              show);
  }
  return table;
}

Value limits_value(const sim::SimResult& step) {
  Value list = empty_array();
  std::vector<std::string> words;
  constexpr std::size_t kNamed = 3;
  for (const sim::Limit& limit : step.limits) {
    list.append(Sheet{{"resource", limit.resource}, {"share", limit.share}});
    if (words.size() < kNamed)
      words.push_back(fmt::format("{} {}", limit.resource, percent(limit.share)));
  }
  return {list, joined(words, ", ")};
}

Sheet side_sheet(const DiffSide& side) {
  const sim::SimResult& step = sim_of(side);
  Sheet out{{"plan", side.file},
            {"model", side.planned.model.name},
            {"cluster", side.cluster.name},
            {"ranks", side.planned.job.world()},
            {"tokens_per_step", tokens_of(side)},
            {"fingerprint", side.planned.fingerprint},
            {"fits", !side.memory.infeasible},
            {"step_s", step.period},
            {"tokens_per_s", side.time.throughput.tokens_per_second},
            {"mfu", side.time.throughput.mfu},
            {"limited_by", limits_value(step)}};
  return out;
}

}  // namespace

Sheet diff_sheet(const PlanDiff& diff) {
  Sheet out("zplan.diff/1");
  const Sheet a = side_sheet(diff.sides[0]), b = side_sheet(diff.sides[1]);
  out.facts({{"verdict", verdict(diff)}, {"before", Value(a)}, {"after", Value(b)}});
  out.print(verdict(diff) + "\n\n");
  out.entry("A", "{}: limited by {}", {diff.sides[0].file, a["limited_by"].words});
  out.entry("B", "{}: limited by {}", {diff.sides[1].file, b["limited_by"].words});
  if (diff.decisions.empty()) {
    out.say("\nThe plans decide the same.");
  } else {
    out.heading("Decisions that differ");
  }
  out.table("decisions", decisions_table(diff), kIndent);
  out.heading("Step, of the stage with the busiest compute lane");
  out.table("split", split_table(diff), kIndent);
  out.heading("Memory: per GPU, of CPU and NVMe per node");
  out.table("memory", memory_table(diff), kIndent);
  out.heading("Operations by role, each alone: per step, one rank of each stage");
  out.table("roles", roles_table(diff), kIndent);
  return out;
}

}  // namespace zplan
