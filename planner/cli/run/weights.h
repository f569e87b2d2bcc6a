// Weights of transformers for `zplan run`: those that training begins with (--weights), and those
// that it leaves (--export).
#pragma once

#include <memory>

#include "planner/cli/frame/options.h"
#include "planner/cli/predict/prediction.h"
#include "planner/program/job/model_files.h"

namespace zplan {

// Null: training begins with drawn values, or leaves no folder.
struct WeightFolders {
  std::shared_ptr<const ModelFiles> begun, exported;
};

// Finds what is read and lays out what is written, before anything runs. On stderr: what changes
// numbers in the model that weights are of, and is left out here. Throws Error, one line.
WeightFolders weight_folders(const RunCommand& command, const PlannedJob& planned);

}  // namespace zplan
