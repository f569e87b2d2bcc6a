// The answer of `zplan validate`: published runs beside what is predicted for them. JSON schema
// "zplan.validation/1".
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "planner/cli/frame/sheet.h"
#include "planner/cli/validate/checks.h"
#include "planner/validate/anchoring.h"
#include "planner/validate/evaluate.h"
#include "planner/validate/statistics.h"

namespace zplan {

inline constexpr std::size_t kWorstShown = 10;

struct Validation {
  std::string file;                    // as typed
  std::vector<RunResult> runs;         // in file order
  std::vector<std::string> malformed;  // lines that are no records
  std::vector<Anchor> anchors;         // what --anchor changed
  ValidationStatistics statistics;
  std::optional<Checks> checks{};  // where any is asked for
};

Sheet validation_sheet(const Validation& validation);
std::string validation_html(const Validation& validation);

}  // namespace zplan
