// The checks of `zplan validate`, for people's own CI: whether predictions are close enough to what
// was measured (--most-off of each run, --most-mean-off of the runs of each group), and whether any
// became worse since an earlier report (--baseline). Everything that was found is said in a
// sentence of its own, whether it fails a check or not. Runs whose records are refused have no
// prediction that could be off: they fail no limit and are counted in words. Where no run is left
// to compare, that fails; where a run is refused that was not before, the baseline does.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "planner/cli/frame/options.h"
#include "planner/cli/frame/value.h"
#include "planner/validate/baseline.h"

namespace zplan {

struct Validation;

struct CheckFinding {
  std::string kind;   // "off", "mean_off", "nothing_measured", or what changed: "time_worse" ..
  bool fails = true;  // else it is only told
  std::string run, group;  // empty: it is of a group, or of no one
  std::optional<double> before_pct{}, error_pct{};
  std::optional<MovedPart> moved{};
  std::string sentence;
};

struct Checks {
  std::optional<double> most_off, most_mean_off, most_worse;  // per cent; percentage points
  std::string baseline;                                       // empty: none
  std::int64_t runs = 0, not_predicted = 0;
  std::vector<CheckFinding> findings;

  bool passes() const;
};

// Returns nothing if no check is asked for. Of the baseline the runs of --group count.
std::optional<Checks> find_checks(const ValidateCommand& command, std::optional<Baseline> baseline,
                                  const Validation& validation);

// A line each, on stderr.
void tell_findings(const Checks& checks);
// The words: one line, whether they pass.
Value checks_value(const Checks& checks);

}  // namespace zplan
