// A model as a file of "zplan.model/1", whole, to edit: every size and feature that files may
// state, those that its architecture implies and those that it had by default among them. Read
// again it is the same model.
#pragma once

#include <string>

#include "models/model_config.h"

namespace zplan {

std::string model_template(const ModelConfig& model);

// Of every size and feature, whatever its weights were trained on, whatever the model is called and
// wherever its figures are from: 32 hexadecimal digits.
std::string model_hash(const ModelConfig& model);

}  // namespace zplan
