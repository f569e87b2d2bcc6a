// TOML as the JSON that it stands for, as yaml.h does it for YAML. Dates and numbers that are not
// finite are strings.
#pragma once

#include <string>

#include "planner/core/json_reader.h"

namespace zplan {

JsonNode parse_toml(std::string text, std::string name);

}  // namespace zplan
