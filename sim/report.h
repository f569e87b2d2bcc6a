// Reads an Engine after its last step: period, use of lanes and links, what limits the step.
#pragma once

#include "sim/engine.h"
#include "sim/simulate.h"

namespace zplan::sim {

// Whether the last two periods agree within that share.
bool is_steady(const std::vector<StepMark>& marks, double tolerance = kSteadyTolerance);

SimResult make_result(const Engine& engine, const SimOptions& options);

}  // namespace zplan::sim
