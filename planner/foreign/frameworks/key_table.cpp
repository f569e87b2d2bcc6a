#include "planner/foreign/frameworks/key_table.h"

#include <algorithm>

#include "planner/core/error.h"
#include "planner/foreign/frameworks/embedded_keys.h"

namespace zplan {
namespace {

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

const KeyTable& KeyTable::of(std::string_view file) {
  static const std::map<std::string, KeyTable, std::less<>> kTables = [] {
    std::map<std::string, KeyTable, std::less<>> tables;
    for (const EmbeddedFile& each : embedded_keys())
      tables.emplace(each.name.substr(each.name.rfind('/') + 1),
                     KeyTable(parse_json(std::string(each.text), std::string(each.name))));
    return tables;
  }();
  const auto found = kTables.find(file);
  ZPLAN_ASSERT(found != kTables.end());
  return found->second;
}

KeyTable::KeyTable(const JsonNode& root) {
  JsonObject object = root.object();
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
