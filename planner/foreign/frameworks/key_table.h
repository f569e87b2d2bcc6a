// The keys that a framework's configuration has, with their defaults: keys/*.json, "zplan.keys/1",
// written by tests/frameworks/*_keys.py from the framework itself, and compiled in.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "planner/core/json_reader.h"

namespace zplan {

struct KeyObject {
  bool refuses_unknown = false;  // the framework stops at a key that it does not know
  std::map<std::string, JsonNode, std::less<>> keys;           // with their defaults
  std::map<std::string, std::string, std::less<>> deprecated;  // and what replaces them
  std::map<std::string, std::string, std::less<>> also;        // other names, of which keys
};

class KeyTable {
 public:
  // Returns the table of "deepspeed.json", which is read once: a search reads thousands of
  // configurations.
  static const KeyTable& of(std::string_view file);

  const std::string& framework() const { return framework_; }
  const std::string& version() const { return version_; }
  // By dotted path, "" for the whole.
  const std::map<std::string, KeyObject, std::less<>>& objects() const { return objects_; }
  // Of a key that earlier versions had: what to say instead, or "".
  std::optional<std::string> removed(std::string_view key) const;
  // Dotted paths of keys, and of objects, that have another name: of which.
  const std::map<std::string, std::string>& other_names() const { return other_names_; }
  // Of a key by its dotted path, which must be in the table.
  const JsonNode& usual(std::string_view key) const;

 private:
  explicit KeyTable(const JsonNode& root);

  std::string framework_, version_;
  std::map<std::string, KeyObject, std::less<>> objects_;
  std::map<std::string, std::string, std::less<>> removed_;
  std::map<std::string, std::string> other_names_;
};

}  // namespace zplan
