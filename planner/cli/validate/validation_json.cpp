#include <nlohmann/json.hpp>

#include "planner/certainty/interval.h"
#include "planner/cli/predict/anchor_output.h"
#include "planner/cli/validate/validation.h"

namespace zplan {
namespace {

using Json = nlohmann::ordered_json;

Json time_part(const TimeStatistics& time) {
  return {{"n", time.n},
          {"mape_pct", time.mape_pct},
          {"median_ape_pct", time.median_ape_pct},
          {"p90_ape_pct", time.p90_ape_pct},
          {"bias_pct", time.bias_pct},
          {"in_interval_pct", time.in_interval_pct},
          {"half_width_pct", time.half_width_pct},
          {"pairs", time.pairs},
          {"pairs_right_pct", time.pairs_right_pct},
          {"sweeps", time.sweeps},
          {"sweeps_best_within_3_pct", time.sweeps_best_within_pct},
          {"worst_best_ratio", time.worst_best_ratio}};
}

Json memory_part(const MemoryStatistics& memory) {
  return {{"n", memory.n},
          {"mape_pct", memory.mape_pct},
          {"median_ape_pct", memory.median_ape_pct},
          {"bias_pct", memory.bias_pct},
          {"bounded_pct", memory.bounded_pct},
          {"false_fits", memory.false_fits},
          {"false_ooms", memory.false_ooms}};
}

Json number(const std::optional<double>& value) { return value ? Json(*value) : Json(); }

Json worst_part(const RunResult& run) {
  return {{"id", run.id},
          {"group", run.group},
          {"predicted_s", *run.predicted_s},
          {"measured_s", *run.measured_s},
          {"error_pct", run.time_error_pct()}};
}

Json row_part(const RunResult& run) {
  Json row = {{"id", run.id},
              {"group", run.group},
              {"stack", run.stack},
              {"kernel_set", run.kernel_set},
              {"predicted_s", number(run.predicted_s)},
              {"measured_s", number(run.measured_s)}};
  row["low_s"] = run.predicted_s ? Json(run.low_s) : Json();
  row["high_s"] = run.predicted_s ? Json(run.high_s) : Json();
  row["unknown"] = run.unknown;
  row["error_pct"] = run.has_time() ? Json(run.time_error_pct()) : Json();
  row["predicted_gib"] = number(run.predicted_gib);
  row["bound_gib"] = number(run.bound_gib);
  row["measured_gib"] = number(run.measured_gib);
  row["out_of_memory"] = run.out_of_memory;
  row["fits"] = run.unsupported.empty() ? Json(run.fits) : Json();
  row["flags"] = run.flags;
  return row;
}

}  // namespace

std::string validation_json(const Validation& validation) {
  const ValidationStatistics& statistics = validation.statistics;
  Json out = {{"schema", "zplan.validation/1"},
              {"file", validation.file},
              {"runs", validation.runs.size()},
              {"malformed", validation.malformed},
              {"time", time_part(statistics.all.time)},
              {"mean_group_mape_pct", statistics.mean_group_mape_pct},
              {"interval_pct", kIntervalPct},
              {"memory", memory_part(statistics.all.memory)},
              {"anchors", Json::parse(anchors_json(validation.anchors))},
              {"groups", Json::object()},
              {"worst", Json::array()},
              {"unsupported", Json::array()},
              {"rows", Json::array()}};
  for (const auto& [group, of] : statistics.groups)
    out["groups"][group] = {{"time", time_part(of.time)}, {"memory", memory_part(of.memory)}};
  for (const RunResult* run : worst_runs(validation.runs, kWorstShown))
    out["worst"].push_back(worst_part(*run));
  for (const RunResult& run : validation.runs) {
    if (!run.unsupported.empty())
      out["unsupported"].push_back({{"id", run.id}, {"reason", run.unsupported}});
    out["rows"].push_back(row_part(run));
  }
  return out.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace zplan
