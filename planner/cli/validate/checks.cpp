#include "planner/cli/validate/checks.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>

#include "planner/cli/validate/validation.h"
#include "planner/core/error.h"
#include "planner/core/quantity.h"
#include "planner/core/text.h"

namespace zplan {
namespace {

constexpr double kUsualMostWorse = 1;  // [assumed] percentage points that nobody calls a regression

std::string seconds_words(double seconds) { return format_seconds(Seconds{seconds}); }

std::string off_words(const RunResult& run) {
  return fmt::format("run {}: predicted {}, measured {}: off by {:+.1f} %", run.id,
                     seconds_words(*run.predicted_s), seconds_words(*run.measured_s),
                     run.time_error_pct());
}

// The runs that are off by more, the worst first.
void add_off(double most, const Validation& validation, std::vector<CheckFinding>& findings) {
  for (const RunResult* run : worst_runs(validation.runs, validation.runs.size())) {
    if (std::abs(run->time_error_pct()) <= most) break;
    findings.push_back({.kind = "off",
                        .run = run->id,
                        .group = run->group,
                        .error_pct = run->time_error_pct(),
                        .sentence = fmt::format("{} (--most-off {:g}%)", off_words(*run), most)});
  }
}

void add_mean_off(double most, const Validation& validation, std::vector<CheckFinding>& findings) {
  for (const auto& [group, of] : validation.statistics.groups) {
    if (of.time.n == 0 || of.time.mape_pct <= most) continue;
    findings.push_back(
        {.kind = "mean_off",
         .run = {},
         .group = group,
         .error_pct = of.time.mape_pct,
         .sentence = fmt::format("group {}: off by {:.1f} % on average over its {} runs "
                                 "(--most-mean-off {:g}%)",
                                 group, of.time.mape_pct, of.time.n, most)});
  }
}

std::string measured_words(const RunChange& change) {
  const double before = *change.before->measured_s, now = *change.now->measured_s;
  return before == now
             ? fmt::format("measured {}", seconds_words(now))
             : fmt::format("measured {} then, {} now", seconds_words(before), seconds_words(now));
}

std::string moved_words(const std::optional<MovedPart>& moved) {
  if (!moved) return "no part of the prediction moved";
  return fmt::format("most moved: {}, {} -> {}", name(moved->use), seconds_words(moved->before_s),
                     seconds_words(moved->after_s));
}

std::string time_words(const RunChange& change) {
  return fmt::format("off by {:+.1f} % then, {:+.1f} % now (predicted {} -> {}, {}); {}",
                     change.before_pct, change.now_pct, seconds_words(*change.before->predicted_s),
                     seconds_words(*change.now->predicted_s), measured_words(change),
                     moved_words(change.moved));
}

std::string memory_words(const RunChange& change) {
  return fmt::format(
      "memory off by {:+.1f} % then, {:+.1f} % now (predicted {:.2f} GiB -> {:.2f} GiB)",
      change.before_pct, change.now_pct, *change.before->predicted_gib, *change.now->predicted_gib);
}

std::string fit_words(const RunChange& change) {
  return *change.now->fits ? "ran out of memory, and is predicted to fit now"
                           : "was measured, and is predicted not to fit now";
}

struct ChangeWords {
  std::string kind, words;
};
ChangeWords words_of(const RunChange& change) {
  switch (change.kind) {
    case RunChangeKind::kTimeWorse:
      return {"time_worse", time_words(change)};
    case RunChangeKind::kMemoryWorse:
      return {"memory_worse", memory_words(change)};
    case RunChangeKind::kFitWrong:
      return {"fit_wrong", fit_words(change)};
    case RunChangeKind::kUnsupported:
      return {"unsupported", "is not predicted any more: " + change.now->unsupported};
    case RunChangeKind::kLost:
      return {"lost", fmt::format("has no {} any more", change.lost)};
    case RunChangeKind::kGone:
      return {"gone", "is not among the runs any more"};
    case RunChangeKind::kNew:
      return {"new", change.now->has_time()
                         ? fmt::format("is new, off by {:+.1f} %", change.now->time_error_pct())
                         : "is new"};
    case RunChangeKind::kSupported:
      return {"supported", "was not predicted then and is now"};
  }
  ZPLAN_ASSERT(false);
}

CheckFinding finding_of(const RunChange& change, const std::string& file) {
  const std::string& id = change.now != nullptr ? change.now->id : change.before->id;
  const std::string& group = change.now != nullptr ? change.now->group : change.before->group;
  const ChangeWords words = words_of(change);
  const bool is_error =
      change.kind == RunChangeKind::kTimeWorse || change.kind == RunChangeKind::kMemoryWorse;
  return {.kind = words.kind,
          .fails = fails(change.kind),
          .run = id,
          .group = group,
          .before_pct = is_error ? std::optional(change.before_pct) : std::nullopt,
          .error_pct = is_error ? std::optional(change.now_pct) : std::nullopt,
          .moved = change.moved,
          .sentence = fmt::format("run {} against {}: {}", id, file, words.words)};
}

void add_changes(const Baseline& baseline, double most_worse, const Validation& validation,
                 std::vector<CheckFinding>& findings) {
  const std::vector<RunChange> changes = changes_since(baseline, validation.runs, most_worse);
  for (const RunChange& change : changes) findings.push_back(finding_of(change, baseline.file));
  for (const std::string& line : newly_malformed(baseline, validation.malformed))
    findings.push_back({.kind = "malformed",
                        .run = {},
                        .group = {},
                        .sentence = fmt::format("a line that is no record now, unlike in {}: {}",
                                                baseline.file, line)});
}

}  // namespace

bool Checks::passes() const { return std::ranges::none_of(findings, &CheckFinding::fails); }

std::optional<Checks> find_checks(const ValidateCommand& command, std::optional<Baseline> baseline,
                                  const Validation& validation) {
  const bool limits = command.most_off || command.most_mean_off;
  if (!limits && !baseline) return std::nullopt;
  Checks checks{.most_off = command.most_off,
                .most_mean_off = command.most_mean_off,
                .most_worse = command.most_worse,
                .baseline = command.baseline,
                .runs = std::ssize(validation.runs),
                .not_predicted = std::ranges::count_if(
                    validation.runs, [](const RunResult& run) { return !run.unsupported.empty(); }),
                .findings = {}};
  if (limits && validation.statistics.all.time.n == 0)
    checks.findings.push_back({.kind = "nothing_measured",
                               .run = {},
                               .group = {},
                               .sentence = "no run has a step time both measured and predicted"});
  if (command.most_off) add_off(*command.most_off, validation, checks.findings);
  if (command.most_mean_off) add_mean_off(*command.most_mean_off, validation, checks.findings);
  if (!baseline) return checks;
  checks.most_worse = command.most_worse.value_or(kUsualMostWorse);
  if (!command.group.empty())
    std::erase_if(baseline->runs,
                  [&](const BaselineRun& run) { return run.group != command.group; });
  add_changes(*baseline, *checks.most_worse, validation, checks.findings);
  return checks;
}

}  // namespace zplan
