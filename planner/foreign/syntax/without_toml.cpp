// In place of toml.cpp where the library that reads TOML was not there at build time.
#include <fmt/format.h>

#include "planner/core/error.h"
#include "planner/foreign/syntax/toml.h"

namespace zplan {

JsonNode parse_toml(std::string, std::string name) {
  throw_bad_input(
      fmt::format("{}: this zplan was built without TOML (package libtomlplusplus-dev)", name));
}

}  // namespace zplan
