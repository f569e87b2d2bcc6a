// The keys of a config.json that say a model, by the names that a family's class has for them: what
// the readers (families.h) turn into a model, turned back. Whether they say all of it shows when
// they are read again (write_config.h).
#pragma once

#include <string>
#include <string_view>

#include "models/model_config.h"
#include "planner/core/json_reader.h"

namespace zplan {

// The text of the file. `defaults`: of the class of this type; `drops`: it trains with dropout.
std::string written_keys(const ModelConfig& model, std::string_view model_type, JsonObject defaults,
                         bool drops);

// A file of this class with dropout, or without.
std::string with_dropout(const std::string& text, JsonObject defaults, bool drops);

}  // namespace zplan
