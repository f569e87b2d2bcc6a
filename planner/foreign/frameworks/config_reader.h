// Reads the keys of a configuration by dotted path, with the framework's own defaults, and collects
// what is wrong with them.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "planner/foreign/frameworks/key_table.h"
#include "planner/foreign/frameworks/setup.h"

namespace zplan {

// By dotted path; nothing: it is not there.
std::optional<JsonNode> find_key(const JsonNode& root, std::string_view key);

class ConfigReader {
 public:
  ConfigReader(JsonNode root, const KeyTable& table) : root_(std::move(root)), table_(table) {}

  // As written; nothing where it is absent, null or "auto".
  std::optional<JsonNode> find(std::string_view key) const;
  bool has(std::string_view key) const { return find(key).has_value(); }
  bool is_auto(std::string_view key) const;

  // What counts: as written, else the default of the table. Throws Error on another type, or out of
  // range. A whole number may be written as 5e8.
  std::int64_t integer(std::string_view key, std::int64_t min, std::int64_t max) const;
  bool flag(std::string_view key) const;
  double number(std::string_view key, double min, double max) const;
  std::string word(std::string_view key, std::initializer_list<std::string_view> allowed) const;

  // `key` names the place where it stands, if it does.
  void add(Trouble trouble, std::string_view key, std::string message);
  // Keys that the table does not have, that were removed or are deprecated.
  void check_keys();
  std::vector<Finding> findings() && { return std::move(findings_); }

 private:
  void check_object(const std::string& path, const KeyObject& object);

  JsonNode root_;
  const KeyTable& table_;
  std::vector<Finding> findings_;
};

}  // namespace zplan
