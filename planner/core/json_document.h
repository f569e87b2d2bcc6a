// The parsed form of a JSON text, shared by json_parse.cpp, json_reader.cpp and the parsers of
// other syntaxes that are read as the JSON they stand for (planner/foreign/syntax). Positions are
// byte offsets; line and column are worked out when a message needs them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace zplan {

// kMissing: what stands for a member that a document lacks, where such faults are gathered.
enum class JsonKind : std::uint8_t { kNull, kBoolean, kNumber, kString, kArray, kObject, kMissing };

struct JsonMember;

struct JsonValue {
  explicit JsonValue(std::size_t begin = 0, JsonKind of = JsonKind::kNull);

  JsonKind kind;
  bool boolean = false;
  std::size_t offset;  // of its first byte
  std::string text;    // string: decoded; number: as written
  std::vector<JsonValue> items;
  std::vector<JsonMember> members;  // in file order, keys unique
};

struct JsonMember {
  std::string key;
  std::size_t offset = 0;  // of the key's opening quote
  JsonValue value;
};

// Here, as only now a vector of members can be made.
inline JsonValue::JsonValue(std::size_t begin, JsonKind of) : kind(of), offset(begin) {}

// Of an object the keys that it lacks and those that nothing reads.
struct JsonFault {
  const JsonValue* object = nullptr;
  std::vector<std::string> missing, unknown;
  std::vector<std::string> asked;  // for
};

struct JsonDocument {
  std::string name;
  std::string text;
  int first_line = 1;  // of the text within what `name` stands for
  JsonValue root;
  // What this one is written over: values with offsets behind the end of `text` are from there.
  std::shared_ptr<const JsonDocument> base;
  // Whether faults wait for the end of reading, and those that do, in the order of reading.
  mutable bool gathers = false;
  mutable std::vector<JsonFault> faults;

  // Throws what was gathered, if anything, else the message.
  [[noreturn]] void fail(std::size_t offset, std::string_view pointer,
                         const std::string& message) const;
  std::string location(std::size_t offset) const;  // "name:line:col"
  int line(std::size_t offset) const;
  JsonFault& fault_of(const JsonValue* object) const;
  void fail_with(std::vector<JsonFault> found) const;  // returns where there are none
};

// Throws Error(kBadInput) at the first byte of its text that is none of UTF-8.
void check_utf8(const JsonDocument& document);

// Pointer of `target` in the document, by address.
std::string pointer_of(const JsonDocument& document, const JsonValue* target);

// Python writes Infinity, -Infinity and NaN; kPython reads them as numbers, which no range has.
enum class JsonNumbers : std::uint8_t { kFinite, kPython };
std::shared_ptr<const JsonDocument> parse_document(std::string text, std::string name,
                                                   int first_line,
                                                   JsonNumbers numbers = JsonNumbers::kFinite);

// Names in quotes, with commas between.
std::string quoted_list(const std::vector<std::string>& names);

// "~" and "/" escaped as RFC 6901 demands; control characters made visible.
std::string pointer_segment(std::string_view key);

}  // namespace zplan
