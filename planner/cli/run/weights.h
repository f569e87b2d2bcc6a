// Weights of transformers for `zplan run`: those that training begins with (--weights), and those
// that it leaves (--export).
#pragma once

#include "exec/run.h"
#include "planner/cli/frame/options.h"
#include "planner/cli/predict/prediction.h"

namespace zplan {

// Finds what is read and lays out what is written, before anything runs. On stderr: what changes
// numbers in the model that weights are of, and is left out here. Throws Error, one line.
void add_weights(const RunCommand& command, const PlannedJob& planned, exec::RunOptions& options);

}  // namespace zplan
