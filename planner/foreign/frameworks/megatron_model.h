// The model that Megatron-LM's options describe.
#pragma once

#include <optional>

#include "models/model_config.h"
#include "planner/core/json_reader.h"
#include "planner/foreign/frameworks/config_reader.h"

namespace zplan {

// Nothing where the options say no sizes. Throws Error on what no model has.
std::optional<ModelConfig> megatron_model(const JsonNode& root);

// Of options that have sizes, of which `root` is the place.
ModelConfig megatron_model(const JsonNode& root, const ConfigReader& options);

}  // namespace zplan
