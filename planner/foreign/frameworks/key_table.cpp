#include "planner/foreign/frameworks/key_table.h"

#include <algorithm>

#include "planner/core/error.h"
#include "planner/foreign/frameworks/embedded_keys.h"

namespace zplan {
namespace {

JsonNode find_embedded(std::string_view file) {
  for (const EmbeddedFile& each : embedded_keys())
    if (each.name.ends_with(file))
      return parse_json(std::string(each.text), std::string(each.name));
  assertion_failed("a table of keys by this name", __FILE__, __LINE__);
}

KeyObject read_object(const JsonNode& node) {
  JsonObject object = node.object();
  KeyObject out;
  out.refuses_unknown = object.member("unknown").one_of({"refused", "ignored"}) == "refused";
  for (const auto& [key, usual] : object.member("keys").members()) out.keys.emplace(key, usual);
  for (const auto& [key, now] : object.member("deprecated").members())
    out.deprecated.emplace(key, now.string());
  for (const auto& [key, of] : object.member("also").members()) out.also.emplace(key, of.string());
  object.finish();
  return out;
}

}  // namespace

KeyTable::KeyTable(std::string_view file) {
  JsonObject object = find_embedded(file).object();
  object.schema("zplan.keys/1");
  framework_ = object.member("framework").string();
  version_ = object.member("version").string();
  for (const auto& [path, node] : object.member("objects").members())
    objects_.emplace(path, read_object(node));
  for (const auto& [key, now] : object.member("removed").members())
    removed_.emplace(key, now.string());
  object.finish();
  for (const auto& [path, each] : objects_) {
    const std::string before = path.empty() ? "" : path + ".";
    for (const auto& [key, of] : each.also) other_names_.emplace(before + key, before + of);
  }
}

std::optional<std::string> KeyTable::removed(std::string_view key) const {
  const auto found = removed_.find(key);
  return found == removed_.end() ? std::nullopt : std::optional(found->second);
}

const JsonNode& KeyTable::usual(std::string_view key) const {
  const std::size_t dot = key.rfind('.');
  const bool is_nested = dot != std::string_view::npos;
  const auto object = objects_.find(is_nested ? key.substr(0, dot) : std::string_view());
  ZPLAN_ASSERT(object != objects_.end());
  const auto found = object->second.keys.find(is_nested ? key.substr(dot + 1) : key);
  ZPLAN_ASSERT(found != object->second.keys.end());
  return found->second;
}

}  // namespace zplan
