#include "planner/foreign/frameworks/key_place.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "planner/core/json_edit.h"
#include "planner/foreign/frameworks/config_reader.h"
#include "planner/foreign/frameworks/megatron.h"
#include "planner/foreign/frameworks/named_file.h"

namespace zplan {
namespace {

// Of TrainingArguments: DeepSpeed's configuration, or the path of it.
constexpr std::string_view kNamesFile = "deepspeed";

std::string as_option(std::string_view key) {
  return key.starts_with("--") ? std::string(key) : "--" + std::string(key);
}

// Options may be written with "-" or "_".
std::optional<std::pair<std::string, JsonNode>> find_option(const JsonNode& options,
                                                            std::string_view key) {
  const auto plain = [](std::string option) {
    std::ranges::replace(option, '-', '_');
    return option;
  };
  const std::string wanted = plain(as_option(key));
  for (auto& member : options.members())
    if (plain(member.first) == wanted) return std::move(member);
  return std::nullopt;
}

KeyPlace find_in_file(const JsonNode& root, std::string_view key) {
  KeyPlace out{.value = {}, .object = root, .path = {}, .key = std::string(key)};
  while (true) {
    const std::size_t dot = out.key.find('.');
    const std::string name = out.key.substr(0, dot);
    const auto next = find_key(out.object, name);
    if (dot == std::string::npos) out.value = next;
    if (!next || dot == std::string::npos) return out;
    const std::string rest = out.key.substr(dot + 1);
    if (name == kNamesFile && next->is_string())
      return find_in_file(read_named_config(*next), rest);
    if (!next->is_object()) return out;
    out.object = *next;
    out.path += (out.path.empty() ? "" : ".") + name;
    out.key = rest;
  }
}

KeyPlace find_in_command(const JsonNode& command, const JsonNode& options, std::string_view key) {
  if (auto option = find_option(options, key))
    return {option->second, command, {}, std::move(option->first), true};
  const auto file = find_option(options, kNamesFile);
  if (const std::size_t dot = key.find('.');
      key.substr(0, dot) == kNamesFile && dot != key.npos && file && file->second.is_string())
    return find_in_file(read_named_config(file->second), key.substr(dot + 1));
  return {{}, command, {}, as_option(key), true};
}

// {"a": {"b": value}}
JsonNode changed(const JsonNode& root, const std::vector<std::string>& path, std::string text) {
  for (auto name = path.rbegin(); name != path.rend(); ++name)
    text = "{" + json_string(*name) + ": " + text + "}";
  return written_over(root, parse_json(std::move(text), "edits"));
}

// The names on the way to a key that is, or would be, in the configuration itself.
std::vector<std::string> way_to(const JsonNode& root, std::string_view key) {
  std::vector<std::string> way;
  if (const auto options = arguments_of(root)) {
    way.emplace_back("arguments");
    const auto option = find_option(*options, key);
    const auto first = find_option(*options, key.substr(0, key.find('.')));
    if (option || !first) {
      way.push_back(option ? option->first : as_option(key));
      return way;
    }
    way.push_back(first->first);
    key.remove_prefix(std::min(key.find('.') + 1, key.size()));
  } else if (key.starts_with("--") && find_key(root, "MODEL_ARGS")) {
    way.emplace_back("MODEL_ARGS");
  }
  for (std::size_t dot = key.find('.'); dot != std::string_view::npos; dot = key.find('.')) {
    way.emplace_back(key.substr(0, dot));
    key.remove_prefix(dot + 1);
  }
  way.emplace_back(key);
  return way;
}

}  // namespace

KeyPlace find_place(const JsonNode& root, std::string_view key) {
  if (const auto options = arguments_of(root)) return find_in_command(root, *options, key);
  return find_in_file(key.starts_with("--") ? megatron_options(root) : root, key);
}

JsonNode with_named_file(const JsonNode& root) {
  const KeyPlace at = find_place(root, kNamesFile);
  if (!at.value || !at.value->is_string()) return root;
  return changed(root, way_to(root, kNamesFile), json_text(read_named_config(*at.value)));
}

JsonNode with_key(const JsonNode& root, std::string_view key, std::string_view value) {
  return changed(root, way_to(root, key), value.empty() ? "null" : std::string(value));
}

}  // namespace zplan
