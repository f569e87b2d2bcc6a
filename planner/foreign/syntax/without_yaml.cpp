// In place of yaml.cpp where the library that reads YAML was not there at build time.
#include <fmt/format.h>

#include "planner/core/error.h"
#include "planner/foreign/syntax/yaml.h"

namespace zplan {

JsonNode parse_yaml(std::string, std::string name) {
  throw_bad_input(
      fmt::format("{}: this zplan was built without YAML (package libyaml-cpp-dev)", name));
}

}  // namespace zplan
