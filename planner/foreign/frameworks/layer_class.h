// The class of a decoder layer in Hugging Face's transformers, which wrapping policies name.
#pragma once

#include <string_view>

#include "models/model_config.h"

namespace zplan {

std::string_view layer_class(const ModelConfig& model);

}  // namespace zplan
