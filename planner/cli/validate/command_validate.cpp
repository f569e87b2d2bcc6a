#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <optional>
#include <set>
#include <utility>

#include "planner/cli/commands.h"
#include "planner/cli/frame/interrupt.h"
#include "planner/cli/frame/output.h"
#include "planner/cli/frame/progress.h"
#include "planner/cli/frame/words.h"
#include "planner/cli/predict/stack_use.h"
#include "planner/cli/validate/validation.h"
#include "planner/core/nearest.h"
#include "planner/core/text.h"
#include "planner/search/worker_pool.h"
#include "planner/validate/catalogues.h"
#include "planner/validate/runs.h"

namespace zplan {
namespace {

void keep_group(std::vector<RunRecord>& runs, const std::string& group) {
  std::set<std::string> groups;
  for (const RunRecord& run : runs) groups.insert(run.group);
  if (!groups.contains(group)) {
    const std::vector<std::string> known(groups.begin(), groups.end());
    throw_bad_input(fmt::format("--group: no run of group {}{} (there are: {})", in_quotes(group),
                                did_you_mean(group, known), joined(known, ", ")));
  }
  std::erase_if(runs, [&](const RunRecord& run) { return run.group != group; });
}

// Whatever the group: one that is new since the baseline has no run in it.
void check_same_runs(const Baseline& baseline, const std::string& file,
                     const std::vector<RunRecord>& runs) {
  std::set<std::string> ids;
  for (const RunRecord& run : runs) ids.insert(run.id);
  const bool is_shared = std::ranges::any_of(
      baseline.runs, [&](const BaselineRun& run) { return ids.contains(run.id); });
  if (!is_shared)
    throw_bad_input(
        fmt::format("--baseline: expected a report of runs of {}, got {}, which has none of them",
                    file, baseline.file));
}

// Each result has its place, so their order does not depend on the threads. Nothing: interrupted.
std::optional<std::vector<RunResult>> evaluate_all(const std::vector<RunRecord>& runs,
                                                   const RunCatalogues& catalogues,
                                                   const StackProfile* stack, int threads) {
  Progress progress;
  std::vector<RunResult> results(runs.size());
  std::atomic<std::size_t> done{0};
  WorkerPool(threads).for_each(runs.size(), [&](std::size_t i) {
    if (InterruptGuard::interrupted()) return;
    results[i] = evaluate(runs[i], catalogues, stack);
    progress.show(fmt::format("validating: {} of {} runs", ++done, runs.size()));
  });
  if (InterruptGuard::interrupted()) return std::nullopt;
  return results;
}

}  // namespace

ExitCode execute(const ValidateCommand& command) {
  const InterruptGuard guard;
  check_outputs({command.html}, {command.runs, command.baseline});
  std::optional<Baseline> baseline;
  if (!command.baseline.empty()) baseline = read_baseline(command.baseline);
  const StackUse use = find_stack_use(command.stack, command.anchor);
  const StackProfile* const stack = command.stack.empty() ? nullptr : &use.evidence.stack;
  RunCatalogues catalogues;
  if (!use.anchors.empty()) anchor_catalogues(use, catalogues);
  RunFile file = read_runs(command.runs);
  for (const std::string& line : file.malformed) complain(line);
  if (baseline) check_same_runs(*baseline, command.runs, file.runs);
  if (!command.group.empty()) keep_group(file.runs, command.group);

  Validation validation{.file = command.runs,
                        .runs = {},
                        .malformed = std::move(file.malformed),
                        .anchors = use.anchors,
                        .statistics = {}};
  auto results = evaluate_all(file.runs, catalogues, stack, command.threads);
  if (!results) return ExitCode::kInterrupted;
  validation.runs = std::move(*results);
  validation.statistics = statistics(validation.runs);
  validation.checks = find_checks(command, std::move(baseline), validation);
  if (validation.checks) tell_findings(*validation.checks);
  write_answer(validation_sheet(validation), command.json, [&] {
    if (!command.html.empty()) write_file(command.html, validation_html(validation));
  });
  const bool is_good =
      validation.malformed.empty() && (!validation.checks || validation.checks->passes());
  return is_good ? ExitCode::kOk : ExitCode::kCheckFailed;
}

}  // namespace zplan
