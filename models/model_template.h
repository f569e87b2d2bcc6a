// A model as a file of "zplan.model/1", whole, to edit: every size and feature that files may
// state, those that its architecture implies and those that it had by default among them. Read
// again it is the same model.
#pragma once

#include <string>

#include "models/model_config.h"

namespace zplan {

std::string model_template(const ModelConfig& model);

}  // namespace zplan
