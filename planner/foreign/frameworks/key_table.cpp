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
  for (const JsonNode& key : object.member("removed").items()) removed_.insert(key.string());
  object.finish();
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
