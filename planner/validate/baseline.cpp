#include "planner/validate/baseline.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>

#include "planner/core/error.h"
#include "planner/core/json_reader.h"
#include "planner/core/text.h"

namespace zplan {
namespace {

constexpr double kMostSeconds = 1e9, kMostGib = 1e9;  // of a step, of a GPU: more is a typing error

// Predicted and measured figures are above 0.
std::optional<double> number_or_null(const JsonNode& node, double most) {
  constexpr double kLeast = std::numeric_limits<double>::min();
  return node.is_null() ? std::nullopt : std::optional(node.number(kLeast, most));
}

StepParts read_parts(const JsonNode& node) {
  StepParts parts{};
  JsonObject in = node.object();
  for (std::size_t use = 0; use < parts.size(); ++use)
    parts[use] = in.member(key(static_cast<sim::StepUse>(use))).number(0, kMostSeconds);
  in.finish();
  return parts;
}

BaselineRun read_run(const JsonNode& node) {
  JsonObject in = node.object();
  BaselineRun run{.id = in.member("id").non_empty_string(), .group = in.member("group").string()};
  run.predicted_s = number_or_null(in.member("predicted_s"), kMostSeconds);
  run.measured_s = number_or_null(in.member("measured_s"), kMostSeconds);
  run.predicted_gib = number_or_null(in.member("predicted_gib"), kMostGib);
  run.measured_gib = number_or_null(in.member("measured_gib"), kMostGib);
  run.out_of_memory = in.member("out_of_memory").boolean();
  if (const JsonNode fits = in.member("fits"); !fits.is_null()) run.fits = fits.boolean();
  const auto split = in.optional_member("split_s");
  if (!split)
    node.fail(
        "expected \"split_s\", the parts of the predicted step, got a report of a version without "
        "it; make it again: zplan validate RUNS.jsonl --json");
  if (run.predicted_s.has_value() == split->is_null())
    split->fail_expected(run.predicted_s ? "the parts of predicted_s" : "null, as predicted_s is");
  if (run.predicted_s) run.parts = read_parts(*split);
  return run;
}

std::optional<double> time_error(const BaselineRun& run) {
  if (!run.predicted_s || !run.measured_s) return std::nullopt;
  return error_pct(*run.predicted_s, *run.measured_s);
}

std::optional<double> memory_error(const BaselineRun& run) {
  if (!run.predicted_gib || !run.measured_gib) return std::nullopt;
  return error_pct(*run.predicted_gib, *run.measured_gib);
}

std::optional<MovedPart> most_moved(const StepParts& before, const StepParts& now) {
  std::optional<MovedPart> most;
  for (std::size_t use = 0; use < now.size(); ++use) {
    if (now[use] == before[use]) continue;
    const bool is_more =
        !most || std::abs(now[use] - before[use]) > std::abs(most->after_s - most->before_s);
    if (is_more) most = MovedPart{static_cast<sim::StepUse>(use), before[use], now[use]};
  }
  return most;
}

bool is_worse(std::optional<double> before, double now, double most_points) {
  return before && std::abs(now) > std::abs(*before) + most_points;
}

// Runs that were measured did fit, whatever else is known of them.
// What nothing decides is not wrong.
bool is_right(std::optional<bool> fits, bool out_of_memory) { return fits != out_of_memory; }

void add_worse(const BaselineRun& before, const RunResult& now, double most_points,
               std::vector<RunChange>& changes) {
  if (now.has_time() && is_worse(time_error(before), now.time_error_pct(), most_points))
    changes.push_back({RunChangeKind::kTimeWorse, &before, &now, *time_error(before),
                       now.time_error_pct(), most_moved(before.parts, now.parts)});
  if (now.has_memory() && is_worse(memory_error(before), now.memory_error_pct(), most_points))
    changes.push_back({RunChangeKind::kMemoryWorse, &before, &now, *memory_error(before),
                       now.memory_error_pct()});
  if (is_right(before.fits, before.out_of_memory) && !is_right(now.fits, now.out_of_memory))
    changes.push_back({RunChangeKind::kFitWrong, &before, &now});
}

// A prediction that is missing for want of its measurement is no loss of its own.
void add_lost(const BaselineRun& before, const RunResult& now, std::vector<RunChange>& changes) {
  const auto add = [&](std::string_view figure) {
    changes.push_back(
        {.kind = RunChangeKind::kLost, .before = &before, .now = &now, .lost = figure});
  };
  if (before.measured_s && !now.measured_s) add("measured step time");
  if (before.predicted_s && now.measured_s && !now.predicted_s) add("predicted step time");
  if (before.measured_gib && !now.measured_gib) add("measured memory");
  if (before.predicted_gib && now.measured_gib && !now.predicted_gib) add("predicted memory");
}

void add_changes(const BaselineRun& before, const RunResult& now, double most_points,
                 std::vector<RunChange>& changes) {
  const bool was = before.fits.has_value(), is = now.unsupported.empty();
  if (was && is) {
    add_worse(before, now, most_points, changes);
    add_lost(before, now, changes);
    return;
  }
  if (was) changes.push_back({RunChangeKind::kUnsupported, &before, &now});
  if (is) changes.push_back({RunChangeKind::kSupported, &before, &now});
}

// "runs.jsonl:2:1: /: expected .." without its place.
std::string without_place(const std::string& line) {
  const std::size_t at = line.find(": ");
  return at == line.npos ? line : line.substr(at + 2);
}

}  // namespace

Baseline read_baseline(const std::string& path) {
  Baseline baseline{.file = path, .runs = {}, .malformed = {}};
  JsonObject in = read_json_file(path).object();
  in.schema("zplan.validation/1");
  std::set<std::string> ids;
  for (const JsonNode& row : in.member("rows").items()) {
    baseline.runs.push_back(read_run(row));
    const std::string& id = baseline.runs.back().id;
    if (!ids.insert(id).second)
      row.fail(fmt::format("expected each id once, got {} again", in_quotes(id)));
  }
  baseline.malformed = in.member("malformed").words();
  return baseline;
}

std::vector<RunChange> changes_since(const Baseline& baseline, const std::vector<RunResult>& runs,
                                     double most_points) {
  std::map<std::string, const RunResult*> now;
  for (const RunResult& run : runs) now.emplace(run.id, &run);
  std::vector<RunChange> changes;
  for (const BaselineRun& before : baseline.runs) {
    const auto same = now.find(before.id);
    if (same == now.end()) {
      changes.push_back({RunChangeKind::kGone, &before, nullptr});
      continue;
    }
    add_changes(before, *same->second, most_points, changes);
    now.erase(same);
  }
  for (const RunResult& run : runs)
    if (now.contains(run.id)) changes.push_back({RunChangeKind::kNew, nullptr, &run});
  return changes;
}

std::vector<std::string> newly_malformed(const Baseline& baseline,
                                         const std::vector<std::string>& malformed) {
  std::multiset<std::string> known;
  for (const std::string& line : baseline.malformed) known.insert(without_place(line));
  std::vector<std::string> found;
  for (const std::string& line : malformed) {
    const auto same = known.find(without_place(line));
    if (same == known.end()) found.push_back(line);
    if (same != known.end()) known.erase(same);
  }
  return found;
}

}  // namespace zplan
