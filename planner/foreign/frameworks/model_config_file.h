// The config.json that an exported training script builds its model from: the user's own where the
// plan's model comes from one, else the one that transformers reads as the model.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "planner/foreign/frameworks/setup.h"

namespace zplan {

struct ModelConfigFile {
  std::string text;  // empty: there is none, and why is an error among the findings
  std::vector<Finding> findings;
};

ModelConfigFile model_config_file(const Plan& plan, const ModelConfig& model);

// Its `model_type`, or the nearest one.
std::string model_type_of(const Plan& plan, const ModelConfig& model);
// Returns the name that transformers has for the class of its layers.
std::string_view layer_class_of(const Plan& plan, const ModelConfig& model);

}  // namespace zplan
