// Sizes that frameworks count in elements of parameters, as a tensor parallel rank has them.
#pragma once

#include <cstdint>

#include "models/model_config.h"
#include "planner/plan/plan.h"

namespace zplan {

// Of what is gathered at a time: layers, or [derived] a quarter of a layer's matrices, of which it
// has four: queries with keys and values, projection, and the two of the MLP.
std::int64_t unit_elements(const Plan& plan, const ModelConfig& model);

// What of a plan is reduced together where a bucket holds so many elements: as many whole layers as
// it has room for, at most 16 and a divisor of those of a piece of the model, or less than one.
Gather unit_of_bucket(std::int64_t elements, const Plan& plan, const ModelConfig& model);

// Of the largest parameter of a rank before it is sharded.
std::int64_t largest_parameter(const Plan& plan, const ModelConfig& model);

}  // namespace zplan
