// Where a key stands in a configuration of a user's, or would be added: in a file, in one that it
// names, or among the options of a command.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "planner/core/json_reader.h"

namespace zplan {

struct KeyPlace {
  std::optional<JsonNode> value;  // as it is written; nothing: the key is not there
  JsonNode object;                // the innermost on the way to it that is there, or a command
  std::string path;               // of the object, dotted; empty: all of a file, or a command
  std::string key;                // within the object: "offload_param.device", "--num-layers"
  bool in_command = false;
};

// `key`: as a framework writes it (framework.h).
KeyPlace find_place(const JsonNode& root, std::string_view key);

// The configuration with a file that it names in the file's place.
JsonNode with_named_file(const JsonNode& root);
// With a key set to what is JSON, or taken away where that is empty.
JsonNode with_key(const JsonNode& root, std::string_view key, std::string_view value);

}  // namespace zplan
