#include "planner/foreign/frameworks/config_file.h"

#include <fmt/format.h>

#include <utility>

#include "planner/core/text.h"
#include "planner/foreign/frameworks/named_file.h"
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

JsonNode parse_command(std::string text, const std::string& name, std::vector<Finding>& findings) {
  CommandLine line = parse_command_line(std::move(text), name);
  if (!line.assumed.empty())
    findings.push_back({.trouble = Trouble::kAssumed,
                        .place = line.assumed.front(),
                        .key = "",
                        .message = fmt::format(
                            "of {} conditions and loops the first branch, or one turn, is taken",
                            line.assumed.size())});
  for (const ReadScript& each : line.scripts)
    findings.push_back(
        {.trouble = Trouble::kAssumed,
         .place = each.place,
         .key = "",
         .message = each.is_read
                        ? fmt::format("{} is read, its variables count", in_quotes(each.name))
                        : fmt::format("{} is not in the folder of the script: not read",
                                      in_quotes(each.name))});
  for (const UnknownWord& word : line.unknown)
    findings.push_back({.trouble = Trouble::kAssumed,
                        .place = word.place,
                        .key = "",
                        .message = fmt::format("{} is not known here: no options are taken from it",
                                               in_quotes(word.text))});
  return std::move(line.root);
}

JsonNode parse_with_repeats(std::string text, const std::string& name,
                            std::vector<Finding>& findings) {
  std::vector<RepeatedKey> repeated;
  JsonNode root = parse_yaml(std::move(text), name, &repeated);
  for (RepeatedKey& each : repeated)
    findings.push_back({.trouble = Trouble::kContradicts,
                        .place = std::move(each.place),
                        .key = std::move(each.key),
                        .message = "is there before: the last one counts"});
  return root;
}

JsonNode parse_any(std::string text, const std::string& name, std::vector<Finding>& findings) {
  const std::string lower = to_lower(name);
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  const bool is_object = first != std::string::npos && text[first] == '{';
  if (ends_with_any(lower, {".yaml", ".yml"}))
    return parse_with_repeats(std::move(text), name, findings);
  if (lower.ends_with(".toml")) return parse_toml(std::move(text), name);
  if (lower.ends_with(".json") || is_object) return parse_lenient_json(std::move(text), name);
  return parse_command(std::move(text), name, findings);
}

}  // namespace

ConfigFile parse_config(std::string text, const std::string& name) {
  std::vector<Finding> findings;
  const JsonNode root = parse_any(std::move(text), name, findings);
  std::vector<std::string_view> known;
  for (const Framework& framework : frameworks()) {
    if (framework.is_of(root)) return {root, &framework, std::move(findings)};
    known.push_back(framework.title);
  }
  root.fail(fmt::format("expected a configuration of {}: none of its keys is here",
                        joined(known, " or ")));
}

ConfigFile read_config(const std::string& path) { return parse_config(read_text_file(path), path); }

}  // namespace zplan
