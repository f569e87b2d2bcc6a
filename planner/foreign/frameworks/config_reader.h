// Reads the keys of a configuration by dotted path, with the framework's own defaults, and collects
// what is wrong with them.
//
// Some files also hold keys of the training script. There a key that the framework does not have is
// a mistake only if it is nearly one of its keys; the others are named in one finding.
#pragma once

#include <cstdint>
#include <functional>
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

// The options of a command, where the root is one.
std::optional<JsonNode> arguments_of(const JsonNode& root);

class ConfigReader {
 public:
  // `prefix`: of the keys where they are written, "--" on a command line.
  ConfigReader(JsonNode root, const KeyTable& table, std::string prefix = "")
      : root_(std::move(root)), table_(table), prefix_(std::move(prefix)) {}

  // Of keys that stand under other names: `lookup` finds what one says.
  using Lookup = std::function<std::optional<JsonNode>(std::string_view key)>;
  ConfigReader(JsonNode root, const KeyTable& table, Lookup lookup)
      : root_(std::move(root)), table_(table), lookup_(std::move(lookup)) {}

  // As written; nothing where it is absent, null or "auto".
  std::optional<JsonNode> find(std::string_view key) const;
  bool has(std::string_view key) const { return find(key).has_value(); }
  bool is_auto(std::string_view key) const;

  // What counts: as written, else the default of the table. Throws Error on another type, or out of
  // range. A whole number may be written as 5e8.
  std::int64_t integer(std::string_view key, std::int64_t min, std::int64_t max) const;
  bool flag(std::string_view key) const;  // true, "true" or "True"
  double number(std::string_view key, double min, double max) const;
  std::string word(std::string_view key, std::initializer_list<std::string_view> allowed) const;

  // `key` names the place where it stands, if it does.
  void add(Trouble trouble, std::string_view key, std::string message);
  // Keys that the table does not have, that were removed or are deprecated. `owner`: whose the keys
  // are that the framework does not have, "the training script"; empty: they have none.
  void check_keys(std::string_view owner = "");
  std::vector<Finding> findings() && { return std::move(findings_); }

 private:
  // As written under the key's name or another that it has.
  std::optional<JsonNode> written(std::string_view key) const;
  void check_object(const std::string& path, const KeyObject& object, std::string_view owner);
  void check_stranger(const std::string& whole, const KeyObject& object, std::string_view owner);
  void name_strangers(std::string_view owner);

  JsonNode root_;
  const KeyTable& table_;
  std::string prefix_;
  Lookup lookup_;
  std::vector<Finding> findings_;
  std::vector<std::string> strangers_;  // keys of the owner
};

}  // namespace zplan
