// Validation: a step of which only the operations are done that make its loss. All others are
// passed over, so that no state changes, while lanes, edges and addresses stay those of training.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "planner/program/job/job.h"

namespace zplan {

// By node: the forward pass, what adds up and reports the loss, and what brings the parameters that
// these read. A loss that is worked off in pieces has them brought by its backward pass.
std::vector<bool> loss_nodes(const Program& program);

// Why nothing can be validated between two steps of the job; nothing where it can: those operations
// would write over what a step hands on to the next (carried.h).
std::optional<std::string> no_validation(const Job& job);

}  // namespace zplan
