#include "planner/foreign/frameworks/config_file.h"

#include <fmt/format.h>

#include <utility>

#include "planner/core/text.h"
#include "planner/foreign/syntax/command_line.h"
#include "planner/foreign/syntax/toml.h"
#include "planner/foreign/syntax/yaml.h"

namespace zplan {
namespace {

bool ends_with_any(const std::string& name, std::initializer_list<std::string_view> endings) {
  for (const std::string_view ending : endings)
    if (name.ends_with(ending)) return true;
  return false;
}

JsonNode parse_any(std::string text, const std::string& name) {
  const std::string lower = to_lower(name);
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  const bool is_object = first != std::string::npos && text[first] == '{';
  if (ends_with_any(lower, {".yaml", ".yml"})) return parse_yaml(std::move(text), name);
  if (lower.ends_with(".toml")) return parse_toml(std::move(text), name);
  if (lower.ends_with(".json") || is_object) return parse_json(std::move(text), name);
  return parse_command_line(std::move(text), name).root;
}

}  // namespace

ConfigFile parse_config(std::string text, const std::string& name) {
  const JsonNode root = parse_any(std::move(text), name);
  std::vector<std::string_view> known;
  for (const Framework& framework : frameworks()) {
    if (framework.is_of(root)) return {root, &framework};
    known.push_back(framework.title);
  }
  root.fail(fmt::format("expected a configuration of {}: none of its keys is here",
                        fmt::join(known, " or ")));
}

ConfigFile read_config(const std::string& path) { return parse_config(read_text_file(path), path); }

}  // namespace zplan
