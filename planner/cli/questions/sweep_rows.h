// The answer of `zplan sweep`: for each question of a grid its plan, or why there is none. JSON
// schema "zplan.sweep/1".
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "planner/certainty/interval.h"
#include "planner/cli/frame/options.h"
#include "planner/cli/frame/sheet.h"
#include "planner/cost/goodput.h"
#include "planner/plan/plan.h"

namespace zplan {

enum class RowState : std::uint8_t {
  kFits,
  kDoesNotFit,
  kIllegal,  // no plan of the space has what is pinned
  kStopped,  // interrupted before it was known
  kNotRun
};
std::string_view name(RowState state);  // "does not fit"

// The run of --tokens with one plan, without failures.
struct SweptRun {
  Seconds time{};
  double gpu_hours = 0;
  std::optional<double> money;  // where --price says what a GPU-hour costs

  double days() const { return time.value / kSecondsPerDay; }
};

struct SweepPlan {
  Plan plan;
  std::string profile, software;  // that trains: "nemo2024", "NeMo 2024"
  std::string fingerprint;
  Seconds step{};
  TimeInterval interval;
  double tokens_per_second = 0, mfu = 0, gap = 0;
  int devices = 0;             // of the cluster, or those used where their number was asked for
  int gpus = 0, all_gpus = 0;  // that the plan uses, that the cluster has
  Bytes gpu_memory{}, gpu_free{};
  std::optional<SweptRun> run;
  std::string limited_by;
  std::string objective;          // what the plan has of it; empty: the fastest was asked for
  std::vector<std::string> uses;  // of each axis: what the step has to do with the quantity
  // Of a plan that the search of another row found: the point of that row, and the step of what
  // this row's found.
  std::string found_with;
  std::optional<Seconds> searched;
};

struct SweepRow {
  RowState state = RowState::kNotRun;
  std::string reason;       // why there is no plan
  std::string reason_word;  // the same in a few words
  std::optional<SweepPlan> found;
};

// In the order of the questions, one after the other: each search has all threads. Says on stderr
// what came of each. After an interruption the rest is not run; otherwise rows then try the plans
// of neighbours that ask the same of other hardware, and take one that is faster by more than ties
// are (kTieTolerance): a search may miss what another finds. Only where the
// fastest is asked for.
std::vector<SweepRow> sweep(const SweepCommand& command);

Sheet sweep_sheet(const SweepCommand& command, const std::vector<SweepRow>& rows);
// A heading and a line per question (RFC 4180).
std::string sweep_csv(const SweepCommand& command, const std::vector<SweepRow>& rows);

}  // namespace zplan
