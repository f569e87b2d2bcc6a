// What transformers calls the layers of a model of this type (`_no_split_modules` of its class).
#pragma once

#include <string_view>

namespace zplan {

std::string_view layer_class(std::string_view model_type);

}  // namespace zplan
