// Tuning knobs: choices outside the space of the search and its proof. Some make a plan of the
// space fit, others are tried on the winner (search.h says which and why).
#pragma once

#include <functional>
#include <vector>

#include "planner/search/search.h"

namespace zplan {

// For plans of the space whose prefetch depth or tiles are free: what does not fit is tried without
// prefetch, then in tiles as well. The least working set there is decides whether it can fit.
Evaluator with_free_knobs(Evaluator exact, const ModelConfig& model, const Pins& pins);

// The variations of a plan by one knob at a time, each a legal plan. A knob is turned on what those
// before it have left.
using Knob = std::function<std::vector<Plan>(const Plan&)>;
std::vector<Knob> free_knobs(const ModelConfig& model, const Cluster& cluster, const Pins& pins);

}  // namespace zplan
