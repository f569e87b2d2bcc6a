// The answer of `zplan check`: what a configuration of a framework comes to, what is wrong with it
// and which changes of it gain most. JSON schema "zplan.check/1".
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "planner/cli/foreign/edits.h"
#include "planner/cli/foreign/trial.h"
#include "planner/cli/frame/sheet.h"
#include "planner/cli/predict/prediction.h"
#include "planner/cli/predict/stack_use.h"
#include "planner/foreign/frameworks/framework.h"

namespace zplan {

struct ConfigChange {
  std::string what;  // decisions, "zero_stage 2 -> 3"
  std::vector<KeyEdit> edits;
  Trial trial;
};

struct Check {
  const Framework* framework = nullptr;
  Setup setup{};
  std::string illegal{};  // why zplan has no such plan; then nothing is predicted
  Cluster cluster{};
  std::optional<PlannedJob> planned{};
  MemoryPrediction memory{};
  std::optional<TimePrediction> time{};
  std::vector<ConfigChange> changes{};  // the best first
  std::vector<Anchor> anchors{};        // what --measured changed
  std::optional<MemoryCalibration> memory_calibration{};
};

// The plans that lie one or two decisions away, that the framework can say.
std::vector<Plan> neighbours_of(const Framework& framework, const Plan& plan,
                                const ModelConfig& model, const Cluster& cluster);

Sheet check_sheet(const Check& check);

}  // namespace zplan
