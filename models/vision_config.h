// A model file says its vision tower (vision_shape.h) in fields that begin with "vision_"; these
// read and write them and check them against the text model. A file with one of them has
// vision_layers.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "models/model_config.h"
#include "planner/core/json_reader.h"

namespace zplan {

std::optional<VisionShape> read_vision(JsonObject& object);
void add_vision_fields(const ModelConfig& model, std::vector<ModelField>& all);

struct VisionProblem {
  std::string_view field;
  std::string message;
};
std::optional<VisionProblem> vision_contradiction(const ModelConfig& model);

// Returns the model whose layers are all as those of this model's tower. Its tokens are patches.
ModelConfig tower_layers_of(const ModelConfig& model);
// Returns the model without its tower.
ModelConfig text_alone(ModelConfig model);

}  // namespace zplan
