// Evaluator::wins for the search: plans compared in common samples of what the constants may be
// (planner/certainty/worlds.h). Each plan that is asked about is simulated once more, for what its
// time rests on.
#pragma once

#include <functional>

#include "hwprofiles/hw_profile.h"
#include "models/model_config.h"
#include "planner/certainty/knowledge.h"
#include "planner/plan/plan.h"

namespace zplan {

// In how many of 100 worlds `fastest` takes less time than `other`; may be called from several
// threads. `evidence`: of the stack whose rates the cluster has.
std::function<int(const Plan& fastest, const Plan& other)> make_wins(const ModelConfig& model,
                                                                     const Cluster& cluster,
                                                                     const Evidence& evidence);

}  // namespace zplan
