#include <fmt/format.h>

#include <map>

#include "planner/cli/frame/table.h"
#include "planner/cli/frame/words.h"
#include "planner/cli/predict/anchor_output.h"
#include "planner/cli/validate/validation.h"
#include "planner/core/text.h"

namespace zplan {
namespace {

std::string one_digit(double value) { return fmt::format("{:.1f}", value); }

std::vector<std::string> time_cells(const std::string& name, const TimeStatistics& time) {
  if (time.n == 0) return {name, "0", "", "", "", "", "", "", "", "", ""};
  return {visible(name),
          grouped(time.n),
          one_digit(time.mape_pct),
          one_digit(time.median_ape_pct),
          one_digit(time.p90_ape_pct),
          fmt::format("{:+.1f}", time.bias_pct),
          one_digit(time.in_interval_pct),
          one_digit(time.half_width_pct),
          grouped(time.pairs),
          time.pairs > 0 ? one_digit(time.pairs_right_pct) : "",
          time.sweeps > 0 ? fmt::format("{:.2f}", time.worst_best_ratio) : ""};
}

std::string time_table(const ValidationStatistics& statistics) {
  constexpr Align kLeft = Align::kLeft, kRight = Align::kRight;
  Table table(
      {kLeft, kRight, kRight, kRight, kRight, kRight, kRight, kRight, kRight, kRight, kRight},
      {"step time", "runs", "mean %", "median %", "p90 %", "bias %", "in 80 %", "+-%", "pairs",
       "right %", "best x"});
  for (const auto& [group, of] : statistics.groups)
    if (of.time.n > 0) table.row(time_cells(group, of.time));
  table.row(time_cells("all runs", statistics.all.time));
  if (statistics.all.time.n == 0) return table.text() + "\n";
  return table.text() +
         fmt::format("mean over groups: {} %\n\n", one_digit(statistics.mean_group_mape_pct));
}

bool says_memory(const MemoryStatistics& memory) {
  return memory.n > 0 || memory.false_fits > 0 || memory.false_ooms > 0;
}

std::string memory_table(const ValidationStatistics& statistics) {
  if (!says_memory(statistics.all.memory)) return "";
  constexpr Align kLeft = Align::kLeft, kRight = Align::kRight;
  Table table(
      {kLeft, kRight, kRight, kRight, kRight, kRight, kRight, kRight},
      {"memory", "runs", "mean %", "median %", "bias %", "bounded %", "false fits", "false OOMs"});
  const auto row = [&](const std::string& name, const MemoryStatistics& m) {
    const bool any = m.n > 0;
    table.row({visible(name), grouped(m.n), any ? one_digit(m.mape_pct) : "",
               any ? one_digit(m.median_ape_pct) : "",
               any ? fmt::format("{:+.1f}", m.bias_pct) : "", any ? one_digit(m.bounded_pct) : "",
               grouped(m.false_fits), grouped(m.false_ooms)});
  };
  for (const auto& [group, of] : statistics.groups)
    if (says_memory(of.memory)) row(group, of.memory);
  row("all runs", statistics.all.memory);
  return table.text() + "\n";
}

std::string worst_table(const Validation& validation) {
  const auto worst = worst_runs(validation.runs, kWorstShown);
  if (worst.empty()) return "";
  Table table({Align::kLeft, Align::kRight, Align::kRight, Align::kRight},
              {"largest errors", "predicted s", "measured s", "error %"});
  for (const RunResult* run : worst)
    table.row({visible(run->id), fmt::format("{:.4g}", *run->predicted_s),
               fmt::format("{:.4g}", *run->measured_s),
               fmt::format("{:+.1f}", run->time_error_pct())});
  return table.text() + "\n";
}

std::string unsupported_lines(const Validation& validation) {
  std::map<std::string, int> reasons;
  for (const RunResult& run : validation.runs)
    if (!run.unsupported.empty()) ++reasons[run.unsupported];
  std::string out;
  for (const auto& [reason, n] : reasons)
    out += fmt::format("not supported, {}: {}\n", count_of(n, "run"), visible(reason));
  return out;
}

}  // namespace

std::string validation_text(const Validation& validation) {
  return anchors_text(validation.anchors) + time_table(validation.statistics) +
         memory_table(validation.statistics) + worst_table(validation) +
         unsupported_lines(validation);
}

}  // namespace zplan
