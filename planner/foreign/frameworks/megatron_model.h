// The model that Megatron-LM's options describe.
#pragma once

#include <optional>

#include "models/model_config.h"
#include "planner/core/json_reader.h"

namespace zplan {

// Nothing where the options say no sizes. Throws Error on what no model has.
std::optional<ModelConfig> megatron_model(const JsonNode& root);

}  // namespace zplan
