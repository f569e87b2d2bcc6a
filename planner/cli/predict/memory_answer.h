// The answer of `zplan memory`: what a plan holds, and beside it what DeepSpeed's estimators say.
// JSON schema "zplan.memory/1".
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "planner/cli/frame/sheet.h"
#include "planner/cli/predict/prediction.h"
#include "planner/cli/predict/stack_use.h"
#include "planner/search/deepspeed_estimate.h"

namespace zplan {

struct NamedEstimate {
  std::string rule;  // "current rule", "without zero.Init" ..
  DeepSpeedEstimate bytes;
};

struct DeepSpeedComparison {
  DeepSpeedJob job;
  std::vector<NamedEstimate> estimates;  // empty: there is none for the plan's ZeRO stage
};

struct MemoryAnswer {
  PlannedJob planned;
  Cluster cluster;
  MemoryPrediction memory;
  std::optional<MemoryCalibration> memory_calibration;
  std::optional<DeepSpeedComparison> deepspeed;  // when asked for
};

DeepSpeedComparison compare_with_deepspeed(const PlannedJob& planned, const Cluster& cluster);
// Why the estimates are not what is placed, a line each.
std::vector<std::string> reasons_of_difference(const MemoryAnswer& answer);

Sheet memory_answer_sheet(const MemoryAnswer& answer);

}  // namespace zplan
