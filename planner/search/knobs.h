// Tuning knobs: what makes a leaf of the space fit, and what is tried on the plans that were found
// (search.h says which and why).
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "planner/search/search.h"

namespace zplan {

// Whether gathered parameters or passing gradients go through rings of units, which prefetch
// deepens and tiles make thinner.
bool has_rings(const Plan& plan);
// Three knobs, each of which gives plans that need not be legal. Copies of the states per group of
// ranks that need no network, `near` of them: their traffic stays inside.
std::vector<Plan> sharding_groups(const Plan& plan, std::int64_t near);
// Neighbours in the pipeline side by side: what they send stays within nodes, what replicas
// exchange does not.
std::vector<Plan> pipeline_first(const Plan& plan, std::int64_t near);
// Several layers gathered or reduced together.
std::vector<Plan> larger_units(const Plan& plan);

// For plans of the space whose prefetch depth or tiles are free: what does not fit is tried without
// prefetch, then in tiles as well. The least working set there is decides whether it can fit, and
// the least floor of those that may fit is the bound.
Evaluator with_free_knobs(Evaluator exact, const ModelConfig& model, const Pins& pins);

// The plan with each other pipeline schedule that is legal; none where the schedule is pinned.
std::vector<Plan> with_other_schedules(const Plan& plan, const ModelConfig& model,
                                       const Pins& pins);

// The variations of a plan by one knob at a time, each a legal plan. A knob is turned on what those
// before it have left.
using Knob = std::function<std::vector<Plan>(const Plan&)>;
std::vector<Knob> free_knobs(const ModelConfig& model, const Cluster& cluster, const Pins& pins);

}  // namespace zplan
