// What the runs of a fit say of the certainty of predictions: hwprofiles/measured_runs.h.
#pragma once

#include <optional>
#include <string>

#include "hwprofiles/measured_runs.h"
#include "hwprofiles/stack.h"
#include "tests/fit/least_squares.h"

namespace zplan::fit {

// Of the runs of one stack; nothing where the problem has none.
std::optional<MeasuredStack> survey(const Problem& problem, const Solution& solution,
                                    const std::string& stack);
MeasuredRuns survey(const Problem& problem, const Solution& solution);

// The stack as the catalogue has it, with what the fit says of its rates.
StackProfile fitted_stack(const std::string& name, const Problem& problem,
                          const Solution& solution);

}  // namespace zplan::fit
