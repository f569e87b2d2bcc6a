// Runs whose software chose by itself which activations it recomputed and which it sent away, by a
// rule that its stack does not have: the planner chooses for them (planner/search/homes), among
// what the record says they had.
#pragma once

#include "hwprofiles/hw_profile.h"
#include "models/model_config.h"
#include "planner/plan/plan.h"
#include "planner/validate/runs.h"

namespace zplan {

// Whether the record says so: "automatic: each activation is swapped or recomputed".
bool chooses_homes(const RunRecord& run);

// Of a legal plan that recomputes all layers, whose inputs go where the record says or stay on the
// way there: the fastest that fits of it and of the homes chosen; the plan itself where none does.
Plan with_chosen_homes(const Plan& plan, const ModelConfig& model, const Cluster& cluster);

}  // namespace zplan
