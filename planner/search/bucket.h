// Buckets of gradients, whose size frameworks state in bytes or elements, as units of a Plan.
#pragma once

#include "models/model_config.h"
#include "planner/core/units.h"
#include "planner/plan/gather.h"
#include "planner/plan/plan.h"

namespace zplan {

// The largest unit of the plan whose gradients, as they are reduced, fill the bucket at most, and
// at least an operator: as many layers as the plan can have together, a layer, or, where a layer is
// more than the bucket, one operator after the other [Li20 sec 4.2], [Rajbhandari20 sec 5.2].
// What a rank has of a layer counts as its even part.
Gather unit_of_bucket(Bytes bucket, const Plan& plan, const ModelConfig& model);

}  // namespace zplan
