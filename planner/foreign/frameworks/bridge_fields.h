// Which field of Megatron-Bridge's configuration is which option of Megatron-LM.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "planner/foreign/frameworks/key_table.h"
#include "planner/foreign/frameworks/setup.h"

namespace zplan {

// Whether nothing is left out, as in what training saves, which names the classes.
bool is_whole_bridge_configuration(const JsonNode& root);

// What fields say of an option: as written, else as the classes have it or, in what is no whole
// configuration, as recipes begin. Nothing: it is not given.
std::optional<JsonNode> bridge_option(const JsonNode& root, const KeyTable& table,
                                      std::string_view option);

// The fields that say the options, and what they imply: pipelines need the type of what they send.
std::vector<KeyValue> bridge_fields(const std::vector<KeyValue>& options);

// The field of an option, the first where there are two; empty: none.
std::string bridge_field(std::string_view option);
// A text with fields in place of the options in it.
std::string in_bridge_fields(std::string_view text);

}  // namespace zplan
