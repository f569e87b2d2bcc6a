// The plan that a subcommand looks at: from a file, or the answer to a question.
#pragma once

#include <optional>
#include <vector>

#include "hwprofiles/hw_profile.h"
#include "planner/cli/frame/options.h"
#include "planner/cli/predict/prediction.h"
#include "planner/cli/predict/stack_use.h"
#include "planner/search/search.h"

namespace zplan {

struct ChosenPlan {
  PlannedJob planned;
  Cluster cluster;  // costs what it costs with the stack that was asked for
  MemoryPrediction memory;
  Evidence evidence;              // of that stack
  std::vector<Anchor> anchors{};  // what was measured has changed
  std::optional<MemoryCalibration> memory_calibration{};
  // Of the answer to a question.
  std::optional<TimePrediction> time;
  std::optional<SearchResult> search;
  Pins pins;  // that it kept
};

// Nothing where no plan fits the question, and it has said so. A plan from a file need not fit.
std::optional<ChosenPlan> choose_plan(const PlanSource& source);

}  // namespace zplan
