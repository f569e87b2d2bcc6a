// The answer of `zplan simulate`: one plan on one cluster, in detail. JSON schema
// "zplan.simulation/1".
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "planner/cli/frame/sheet.h"
#include "planner/cli/predict/prediction.h"
#include "planner/cli/predict/stack_use.h"
#include "planner/search/homes/families.h"
#include "planner/validate/anchoring.h"

namespace zplan {

struct Simulation {
  PlannedJob planned;
  Cluster cluster;
  MemoryPrediction memory;
  std::optional<TimePrediction> time;  // nothing when the plan does not fit and must
  std::vector<Anchor> anchors;         // what --anchor and --measured changed
  std::optional<MemoryCalibration> memory_calibration{};
  std::optional<HomesComparison> homes{};  // when asked for
};

// Without a time only JSON has an answer.
Sheet simulation_sheet(const Simulation& simulation);

}  // namespace zplan
