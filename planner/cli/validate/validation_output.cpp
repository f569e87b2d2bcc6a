#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "planner/certainty/interval.h"
#include "planner/cli/frame/table.h"
#include "planner/cli/frame/words.h"
#include "planner/cli/predict/prediction_output.h"
#include "planner/cli/validate/validation.h"
#include "planner/core/text.h"

namespace zplan {
namespace {

// Nothing for people where it is the figure of no runs.
Value figure(double value, bool known = true, bool is_signed = false) {
  Value out = is_signed ? number("{:+.1f}", value) : number("{:.1f}", value);
  if (!known) out.words.clear();
  return out;
}

Sheet time_sheet(const std::string& name, const TimeStatistics& time) {
  const bool any = time.n > 0;
  Sheet out{{"group", only_words(visible(name))},
            {"n", time.n},
            {"mape_pct", figure(time.mape_pct, any)},
            {"median_ape_pct", figure(time.median_ape_pct, any)},
            {"p90_ape_pct", figure(time.p90_ape_pct, any)},
            {"bias_pct", figure(time.bias_pct, any, true)},
            {"in_interval_pct", figure(time.in_interval_pct, any)},
            {"half_width_pct", figure(time.half_width_pct, any)},
            {"pairs", {time.pairs, any ? grouped(time.pairs) : ""}},
            {"pairs_right_pct", figure(time.pairs_right_pct, time.pairs > 0)},
            {"sweeps", time.sweeps},
            {"sweeps_best_within_3_pct", time.sweeps_best_within_pct},
            {"worst_best_ratio", number("{:.2f}", time.worst_best_ratio)}};
  if (time.sweeps == 0) out.fact("worst_best_ratio", {time.worst_best_ratio, ""});
  return out;
}

Sheet memory_sheet(const std::string& name, const MemoryStatistics& memory) {
  const bool any = memory.n > 0;
  return {{"group", only_words(visible(name))},
          {"n", memory.n},
          {"mape_pct", figure(memory.mape_pct, any)},
          {"median_ape_pct", figure(memory.median_ape_pct, any)},
          {"bias_pct", figure(memory.bias_pct, any, true)},
          {"bounded_pct", figure(memory.bounded_pct, any)},
          {"false_fits", memory.false_fits},
          {"false_ooms", memory.false_ooms}};
}

bool says_memory(const MemoryStatistics& memory) {
  return memory.n > 0 || memory.false_fits > 0 || memory.false_ooms > 0;
}

// Of each group and of all runs.
void add_statistics(Sheet& out, const ValidationStatistics& statistics) {
  Table times({"group: step time", "n: runs", "mape_pct: mean %", "median_ape_pct: median %",
               "p90_ape_pct: p90 %", "bias_pct: bias %", "in_interval_pct: in 80 %",
               "half_width_pct: +-%", "pairs", "pairs_right_pct: right %",
               "worst_best_ratio: best x"});
  Table memories({"group: memory", "n: runs", "mape_pct: mean %", "median_ape_pct: median %",
                  "bias_pct: bias %", "bounded_pct: bounded %", "false_fits: false fits",
                  "false_ooms: false OOMs"});
  Sheet groups;
  for (const auto& [group, of] : statistics.groups)
    groups.fact(
        group,
        Sheet{{"time", times.row(time_sheet(group, of.time), of.time.n > 0)},
              {"memory", memories.row(memory_sheet(group, of.memory), says_memory(of.memory))}});
  const RunStatistics& all = statistics.all;
  const Value time = times.row(time_sheet("all runs", all.time));
  const Value memory = memories.row(memory_sheet("all runs", all.memory), says_memory(all.memory));
  out.facts({{"time", {time, times.text()}},
             {"mean_group_mape_pct", figure(statistics.mean_group_mape_pct)},
             {"interval_pct", kIntervalPct},
             {"memory", {memory, memories.text()}},
             {"anchors", empty_array()},
             {"groups", groups}});
}

Table worst_table(const Validation& validation) {
  Table table({"id: largest errors", "predicted_s: predicted s", "measured_s: measured s",
               "error_pct: error %"});
  for (const RunResult* run : worst_runs(validation.runs, kWorstShown))
    table.row({{"id", {run->id, visible(run->id)}},
               {"group", run->group},
               {"predicted_s", number("{:.4g}", *run->predicted_s)},
               {"measured_s", number("{:.4g}", *run->measured_s)},
               {"error_pct", number("{:+.1f}", run->time_error_pct())}});
  return table;
}

// "a, b, c and 4 more"
std::string first_ids(const std::vector<std::string>& ids) {
  constexpr std::size_t kShown = 3;
  const std::vector<std::string> shown(ids.begin(), ids.begin() + std::min(kShown, ids.size()));
  const std::string more =
      ids.size() > kShown ? fmt::format(" and {} more", ids.size() - kShown) : "";
  return visible(joined(shown, ", ")) + more;
}

// People read which runs each reason stops.
Value unsupported(const std::vector<RunResult>& runs) {
  Value rows = empty_array();
  std::map<std::string, std::vector<std::string>> reasons;
  for (const RunResult& run : runs) {
    if (run.unsupported.empty()) continue;
    rows.append(Sheet{{"id", run.id}, {"reason", run.unsupported}});
    reasons[run.unsupported].push_back(run.id);
  }
  std::string out;
  for (const auto& [reason, ids] : reasons)
    out += fmt::format("not supported, {} ({}): {}\n",
                       count_of(static_cast<std::int64_t>(ids.size()), "run"), first_ids(ids),
                       visible(reason));
  return {std::move(rows), std::move(out)};
}

// Seconds by part of the predicted step.
Value parts_value(const StepParts& parts) {
  Sheet out;
  for (std::size_t use = 0; use < parts.size(); ++use)
    out.fact(key(static_cast<sim::StepUse>(use)), parts[use]);
  return out;
}

Value kind_value(const RunResult& run) {
  const Kind& kind = run.kind;
  return Sheet{{"parameters", run.parameters},
               {"device", kind.device},
               {"format", kind.format},
               {"devices", kind.devices},
               {"features", kind.features}};
}

Sheet row_sheet(const RunResult& run) {
  const bool timed = run.predicted_s.has_value();
  return {{"id", run.id},
          {"group", run.group},
          {"stack", run.stack},
          {"kernel_set", run.kernel_set},
          {"predicted_s", run.predicted_s},
          {"measured_s", run.measured_s},
          {"low_s", timed ? Value(run.low_s) : nullptr},
          {"high_s", timed ? Value(run.high_s) : nullptr},
          {"split_s", timed ? parts_value(run.parts) : nullptr},
          {"unknown", run.unknown},
          {"kind", timed ? kind_value(run) : nullptr},
          {"error_pct", run.has_time() ? Value(run.time_error_pct()) : nullptr},
          {"predicted_gib", run.predicted_gib},
          {"bound_gib", run.bound_gib},
          {"measured_gib", run.measured_gib},
          {"out_of_memory", run.out_of_memory},
          {"fits", run.unsupported.empty() && run.fits ? Value(*run.fits) : nullptr},
          {"flags", run.flags}};
}

}  // namespace

Sheet validation_sheet(const Validation& validation) {
  Sheet out("zplan.validation/1");
  out.facts({{"file", validation.file},
             {"runs", validation.runs.size()},
             {"malformed", validation.malformed}});
  add_statistics(out, validation.statistics);
  if (!validation.anchors.empty()) out.fact("anchors", anchors_value(validation.anchors));
  out.facts({{"worst", worst_table(validation)},
             {"unsupported", unsupported(validation.runs)},
             {"rows", each(validation.runs, row_sheet)},
             {"checks", validation.checks ? checks_value(*validation.checks) : nullptr}});
  out.show({"anchors", "time"});
  if (validation.statistics.all.time.n > 0) out.say("mean over groups: {mean_group_mape_pct} %");
  out.print("\n");
  for (const std::string_view table : {"memory", "worst"}) {
    out.show({table});
    if (!out[table].words.empty()) out.print("\n");
  }
  out.show({"unsupported", "checks"});
  return out;
}

}  // namespace zplan
