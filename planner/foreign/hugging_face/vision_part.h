// This reads the vision tower of a config.json, with what joins it to the text model: sizes as
// transformers has them, defaults of its classes included. Each sequence is assumed to have one
// image. A tower that models here do not have is left out, and the text part is read alone.
#pragma once

#include <optional>
#include <string>

#include "models/model_config.h"
#include "planner/core/json_reader.h"

namespace zplan {

// The type is that of the whole file, the model what was read of its text part.
std::optional<VisionShape> read_vision_part(const std::string& type, JsonObject& whole,
                                            const ModelConfig& text);

}  // namespace zplan
