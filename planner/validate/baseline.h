// A validation held against an earlier one, its baseline: the JSON that `zplan validate --json`
// wrote then ("zplan.validation/1").
//
// Runs are matched by id. A run is worse where the absolute error of its step time, or of its
// memory, is larger than it was by more than a number of percentage points, and where the verdict
// whether it fits was what was measured and no longer is. What is lost fails as well: runs that are
// gone or not supported any more, and of the others measured or predicted figures that they had. A
// check that lost half of its runs would pass otherwise. Runs that are new or newly predicted are
// told and fail nothing.
//
// The part of the step that moved is the one whose predicted seconds changed most (StepParts).
// Left out: what the rates were then; a baseline says what was predicted and not by which files.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "planner/validate/evaluate.h"

namespace zplan {

// A baseline run is one row of the report.
struct BaselineRun {
  std::string id, group;
  std::optional<double> predicted_s{}, measured_s{}, predicted_gib{}, measured_gib{};
  StepParts parts{};
  bool out_of_memory = false;
  std::optional<bool> fits{};  // nothing: it was not supported
};

struct Baseline {
  std::string file;
  std::vector<BaselineRun> runs;
  std::vector<std::string> malformed;  // lines that were no records
};

// Throws Error where the file is no such report, or one of a version that had no parts.
Baseline read_baseline(const std::string& path);

enum class RunChangeKind : std::uint8_t {
  kTimeWorse,
  kMemoryWorse,
  kFitWrong,     // the verdict was right
  kUnsupported,  // it was predicted
  kLost,         // a figure of the run
  kGone,
  kNew,
  kSupported,  // it was not predicted
};
// Returns true if a check fails by the change.
constexpr bool fails(RunChangeKind kind) { return kind < RunChangeKind::kNew; }

struct MovedPart {
  sim::StepUse use{};
  double before_s = 0, after_s = 0;
};

struct RunChange {
  RunChangeKind kind{};
  const BaselineRun* before = nullptr;  // null: the run is new
  const RunResult* now = nullptr;       // null: the run is gone
  double before_pct = 0, now_pct = 0;   // signed errors of what is worse
  std::optional<MovedPart> moved{};     // of a worse time; nothing: the prediction is the same
  std::string_view lost{};              // the figure, as "measured step time"
};

// The changes come in the order of the baseline, then new runs in theirs. An error may grow by
// `most_points` percentage points.
std::vector<RunChange> changes_since(const Baseline& baseline, const std::vector<RunResult>& runs,
                                     double most_points);

// Returns those of the lines that are no records now which the baseline does not have. A line is
// the same wherever it stands in its file.
std::vector<std::string> newly_malformed(const Baseline& baseline,
                                         const std::vector<std::string>& malformed);

}  // namespace zplan
