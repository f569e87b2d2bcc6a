#include "planner/foreign/frameworks/config_reader.h"

#include <fmt/format.h>

#include <cmath>

#include "planner/core/nearest.h"
#include "planner/core/text.h"

namespace zplan {
namespace {

std::optional<JsonNode> member_of(const JsonNode& node, std::string_view key) {
  if (!node.is_object()) return std::nullopt;
  for (auto& [name, value] : node.members())
    if (name == key) return std::move(value);
  return std::nullopt;
}

// Frameworks convert what is written as 5e8.
std::int64_t whole_number(const JsonNode& node, std::int64_t min, std::int64_t max) {
  const double number = node.number(static_cast<double>(min), static_cast<double>(max));
  if (number != std::floor(number)) node.fail_expected("a whole number");
  return static_cast<std::int64_t>(number);
}

}  // namespace

std::optional<JsonNode> find_key(const JsonNode& root, std::string_view key) {
  std::optional<JsonNode> node = root;
  while (node && !key.empty()) {
    const std::size_t dot = key.find('.');
    node = member_of(*node, key.substr(0, dot));
    key = dot == std::string_view::npos ? std::string_view() : key.substr(dot + 1);
  }
  return node;
}

std::optional<JsonNode> ConfigReader::find(std::string_view key) const {
  std::optional<JsonNode> node = find_key(root_, key);
  if (node && (node->is_null() || is_auto(key))) return std::nullopt;
  return node;
}

bool ConfigReader::is_auto(std::string_view key) const {
  const std::optional<JsonNode> node = find_key(root_, key);
  return node && node->is_string() && node->string() == "auto";
}

std::int64_t ConfigReader::integer(std::string_view key, std::int64_t min, std::int64_t max) const {
  const std::optional<JsonNode> node = find(key);
  return node ? whole_number(*node, min, max) : whole_number(table_.usual(key), min, INT64_MAX);
}

bool ConfigReader::flag(std::string_view key) const {
  const std::optional<JsonNode> node = find(key);
  if (node && node->is_string()) return node->one_of({"true", "false"}) == "true";
  if (node) return node->boolean();
  const JsonNode& usual = table_.usual(key);
  return usual.is_boolean() && usual.boolean();
}

double ConfigReader::number(std::string_view key, double min, double max) const {
  const std::optional<JsonNode> node = find(key);
  return (node ? *node : table_.usual(key)).number(min, max);
}

std::string ConfigReader::word(std::string_view key,
                               std::initializer_list<std::string_view> allowed) const {
  const std::optional<JsonNode> node = find(key);
  return (node ? *node : table_.usual(key)).one_of(allowed);
}

void ConfigReader::add(Trouble trouble, std::string_view key, std::string message) {
  const std::optional<JsonNode> node = find_key(root_, key);
  findings_.push_back({.trouble = trouble,
                       .place = node && !key.empty() ? node->location() : "",
                       .key = std::string(key),
                       .message = std::move(message)});
}

void ConfigReader::check_keys() {
  for (const auto& [path, object] : table_.objects()) check_object(path, object);
}

void ConfigReader::check_object(const std::string& path, const KeyObject& object) {
  const std::optional<JsonNode> node = find(path);
  if (!node) return;
  std::vector<std::string> known;
  for (const auto& [key, usual] : object.keys) known.push_back(key);
  for (const auto& [key, value] : node->object().node().members()) {
    const std::string whole = path.empty() ? key : path + "." + key;
    if (object.keys.contains(key)) continue;
    const auto old = object.deprecated.find(key);
    if (table_.was_removed(whole)) {
      add(Trouble::kRemoved, whole,
          fmt::format("{} {} has it no longer and stops", table_.framework(), table_.version()));
    } else if (old != object.deprecated.end()) {
      add(Trouble::kUnknown, whole, fmt::format("deprecated: use {}", old->second));
    } else {
      add(object.refuses_unknown ? Trouble::kError : Trouble::kUnknown, whole,
          fmt::format("no key of {} {}, which {}{}", table_.framework(), table_.version(),
                      object.refuses_unknown ? "stops" : "ignores it", did_you_mean(key, known)));
    }
  }
}

}  // namespace zplan
