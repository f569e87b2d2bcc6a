// What `zplan memory` says first and last: which tier is the fullest, and the quantities by which
// ZeRO-Infinity measures a model (models/zero_infinity.h) beside what the plan places of each.
#pragma once

#include <cstddef>
#include <string>

#include "planner/cli/frame/sheet.h"
#include "planner/cli/predict/prediction.h"

namespace zplan {

// "Fits; GPU memory per GPU limits: 73.5 GiB of 75.0 GiB there ..", one line; of a plan that fits.
std::string fullest_line(const MemoryPrediction& memory);

// {"quantities": [{"quantity", "printed_bytes", "layers_bytes", "gpu_bytes", ..}, ..], ..}
Sheet infinity_sheet(const PlannedJob& planned, const Cluster& cluster, const MemoryUse& use,
                     std::size_t indent);

}  // namespace zplan
