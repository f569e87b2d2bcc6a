// A document that says only in what it differs from another one, and JSON as text.
#pragma once

#include <string>
#include <string_view>

#include "planner/core/json_reader.h"

namespace zplan {

// The base with the changes made: members of objects one by one, null removes a member, all else
// replaces what is there (RFC 7396); so does an object with a "value", which stands for one number.
// What fails in it names the file that it is from.
JsonNode written_over(const JsonNode& base, const JsonNode& changes);

// The node as text: in one line what is short and holds single values only, else a line of each
// part; numbers as they were written.
std::string json_text(const JsonNode& node);

// In quotes, escaped.
std::string json_string(std::string_view text);
// The same in ASCII alone; bytes that are no UTF-8 become U+FFFD.
std::string ascii_json_string(std::string_view text);

}  // namespace zplan
