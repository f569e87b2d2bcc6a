// Reads JSON and says exactly where it is wrong:
//   file:line:col: /pointer: expected ..., got ...
// Checked while parsing: syntax, UTF-8, duplicate keys, nesting (kMaxJsonDepth), numbers that do
// not fit a double. Checked while reading: missing and unknown keys (with the nearest name), types,
// ranges, units, the schema tag. Every failure is a zplan::Error with ExitCode::kBadInput.
//
// A JsonNode is a cheap cursor that keeps the parsed document alive. An object is read through a
// JsonObject, which remembers what was asked for:
//
//   JsonObject object = read_json_file(path).object();
//   object.schema("zplan.model/1");
//   model.layers = object.member("layers").integer(1, 10'000);
//   if (auto node = object.optional_member("aliases")) { ... }
//   object.finish();   // rejects keys nobody asked for
//
// Of a document that gathers faults what is missing and what is unknown is reported at once, by
// finish() of the object that is the whole document, or by the first other fault before: in one
// line. What is missing reads as something in range until then.
//
// Columns count characters (code points) from 1. Left out: writing JSON, comments, streaming.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "planner/core/units.h"

namespace zplan {

inline constexpr int kMaxJsonDepth = 100;

struct JsonDocument;  // the parsed text; private to json_reader.cpp and json_parse.cpp
struct JsonValue;
class JsonObject;

class JsonNode {
 public:
  JsonNode(std::shared_ptr<const JsonDocument> document, const JsonValue* value);

  bool is_null() const;
  bool is_boolean() const;
  bool is_number() const;
  bool is_string() const;
  bool is_array() const;
  bool is_object() const;
  bool is_missing() const;  // stands for a member that an object of a gathering document lacks
  bool has_faults() const;  // something was missing so far: no time to compare what was read

  bool boolean() const;
  std::int64_t integer(std::int64_t min, std::int64_t max) const;  // both ends allowed
  double number(double min, double max) const;                     // both ends allowed
  std::string string() const;
  std::string non_empty_string() const;
  std::string one_of(std::initializer_list<std::string_view> allowed) const;
  std::string one_of(const std::vector<std::string>& allowed) const;

  // Quantities are strings with units; a bare number is an error. Rates are > 0.
  Bytes bytes() const;
  BytesPerSecond bytes_per_second() const;
  FlopsPerSecond flops_per_second() const;
  Seconds seconds() const;

  std::vector<JsonNode> items() const;                            // array elements
  std::vector<std::string> words() const;                         // array of non-empty strings
  std::vector<std::pair<std::string, JsonNode>> members() const;  // free-form object, file order
  JsonObject object() const;                                      // object with known keys

  std::string pointer() const;   // RFC 6901, "/" for the whole document
  std::string location() const;  // "file:line:col"
  std::string describe() const;  // "number 5", "string \"abc\"", "object"

  [[noreturn]] void fail(const std::string& message) const;            // location: pointer: message
  [[noreturn]] void fail_expected(const std::string& expected) const;  // ..., got <describe()>

 private:
  friend class JsonObject;
  friend JsonNode gathering_faults(JsonNode root);
  friend JsonNode written_over(const JsonNode& base, const JsonNode& changes);
  friend std::string json_text(const JsonNode& node);
  std::shared_ptr<const JsonDocument> document_;
  const JsonValue* value_;
};

class JsonObject {
 public:
  explicit JsonObject(JsonNode node);  // fails unless node is an object

  JsonNode member(std::string_view key);                          // fails when missing
  std::optional<JsonNode> optional_member(std::string_view key);  // nullopt when missing
  void schema(std::string_view tag);                              // "schema" must equal tag
  void finish() const;  // fails on an unread key, or, of a gathering document, on all faults

  const JsonNode& node() const { return node_; }

 private:
  void remember(std::string_view key);
  std::vector<std::string> unread() const;

  JsonNode node_;
  std::vector<std::string> asked_;
};

// `name` stands for the text in messages, usually its path; `first_line`: where it begins in there.
JsonNode parse_json(std::string text, std::string name, int first_line = 1);
// A text that Python wrote: Infinity, -Infinity and NaN are values, which fail where a number is
// read, as they are in no range.
JsonNode parse_python_json(std::string text, std::string name);
JsonNode read_json_file(const std::string& path);

// The same document, which from now on gathers what it lacks and what nothing reads.
JsonNode gathering_faults(JsonNode root);

// The whole file; throws Error saying why it cannot be read, or that it is larger than 1 GiB.
std::string read_text_file(const std::string& path);

// {"value": ..., "source": "datasheet|measured|fitted|assumed", "ref": "..."}: a number copied from
// elsewhere. `ref` names the place ([key] of models/REFERENCES.md, or a sentence). A bare number or
// string is a value without: its source is "stated", in the file.
struct SourcedNode {
  JsonNode value;
  std::string source;
  std::string ref;
};
SourcedNode read_sourced(const JsonNode& node);

}  // namespace zplan
