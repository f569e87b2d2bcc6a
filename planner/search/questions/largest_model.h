// The largest model of the size ladder (models/size_ladder.h) that a family of plans trains on a
// cluster: bisection over its steps, where a step fits when one plan of the family does.
//
// Exact: that the model found fits, and that the next step of the ladder does not: every plan of
// the family in the search's space is refused by bytes that no placement undercuts or by its own
// placement. Assumed: what lies between steps that were not looked at, that a smaller model fits
// wherever a larger one does. Time plays no part.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "models/size_ladder.h"
#include "planner/search/questions/size_family.h"
#include "planner/search/search.h"

namespace zplan {

// A model against a family: the plan that fits, or the plan that is least over.
struct Fitting {
  std::optional<Plan> plan;
  std::optional<Infeasible> misfit;
};
Fitting fitting_plan(const ModelConfig& model, const Cluster& cluster, const Pins& pins,
                     int threads);

struct LargestModel {
  std::optional<ModelConfig> model;  // nothing: not even the smallest fits
  std::optional<Plan> plan;
  // Of the next larger model: what runs out. Nothing: there is none larger, or it was interrupted.
  std::optional<ModelConfig> next;
  std::optional<Infeasible> misfit;
  std::string refused;       // why the family has no plan here at all
  int steps = 0;             // of the ladder, that were looked at
  bool interrupted = false;  // at least as large
};

struct SizingOptions {
  int threads = 1;
  std::function<void(const LargestModel&)> progress{};  // after each step
  std::function<bool()> interrupted{};
};

LargestModel largest_model(const SizeFamily& family, const std::vector<LadderStep>& ladder,
                           const Cluster& cluster, const Pins& given, const SizingOptions& options);

}  // namespace zplan
