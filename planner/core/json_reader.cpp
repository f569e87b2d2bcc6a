#include "planner/core/json_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <vector>

#include "planner/core/error.h"
#include "planner/core/input_file.h"
#include "planner/core/json_document.h"
#include "planner/core/nearest.h"
#include "planner/core/quantity.h"
#include "planner/core/text.h"

namespace zplan {

JsonNode::JsonNode(std::shared_ptr<const JsonDocument> document, const JsonValue* value)
    : document_(std::move(document)), value_(value) {}

bool JsonNode::is_null() const { return value_->kind == JsonKind::kNull; }
bool JsonNode::is_boolean() const { return value_->kind == JsonKind::kBoolean; }
bool JsonNode::is_number() const { return value_->kind == JsonKind::kNumber; }
bool JsonNode::is_string() const { return value_->kind == JsonKind::kString; }
bool JsonNode::is_array() const { return value_->kind == JsonKind::kArray; }
bool JsonNode::is_object() const { return value_->kind == JsonKind::kObject; }
bool JsonNode::is_missing() const { return value_->kind == JsonKind::kMissing; }
bool JsonNode::has_faults() const { return !document_->faults.empty(); }

// What is missing reads as the least that is in range: the message comes at the end of reading.

bool JsonNode::boolean() const {
  if (is_missing()) return false;
  if (!is_boolean()) fail_expected("true or false");
  return value_->boolean;
}

std::int64_t JsonNode::integer(std::int64_t min, std::int64_t max) const {
  if (is_missing()) return std::clamp<std::int64_t>(1, min, max);
  const std::string expected = fmt::format("an integer from {} to {}", min, max);
  if (!is_number()) fail_expected(expected);
  std::int64_t result = 0;
  const char* end = value_->text.data() + value_->text.size();
  const auto [stop, status] = std::from_chars(value_->text.data(), end, result);
  if (status != std::errc{} || stop != end || result < min || result > max) fail_expected(expected);
  return result;
}

double JsonNode::number(double min, double max) const {
  if (is_missing()) return std::clamp(1.0, min, max);
  const std::string expected = fmt::format("a number from {} to {}", min, max);
  if (!is_number()) fail_expected(expected);
  const double result = std::strtod(value_->text.c_str(), nullptr);
  if (!std::isfinite(result) || result < min || result > max) fail_expected(expected);
  return result;
}

std::string JsonNode::string() const {
  if (is_missing()) return "";
  if (!is_string()) fail_expected("a string");
  return value_->text;
}

std::string JsonNode::non_empty_string() const {
  if (is_missing()) return "missing";
  if (!is_string() || value_->text.empty()) fail_expected("a non-empty string");
  return value_->text;
}

std::string JsonNode::one_of(std::initializer_list<std::string_view> allowed) const {
  return one_of(std::vector<std::string>(allowed.begin(), allowed.end()));
}

std::string JsonNode::one_of(const std::vector<std::string>& allowed) const {
  if (is_missing()) return allowed.front();
  const std::string expected = "one of " + quoted_list(allowed);
  if (!is_string()) fail_expected(expected);
  if (std::find(allowed.begin(), allowed.end(), value_->text) == allowed.end()) {
    fail(fmt::format("expected {}, got {}{}", expected, describe(),
                     did_you_mean(value_->text, allowed)));
  }
  return value_->text;
}

Bytes JsonNode::bytes() const {
  if (is_missing()) return Bytes{1};
  const auto result = is_string() ? parse_bytes(value_->text) : std::nullopt;
  if (!result) fail_expected(std::string(kBytesExpected));
  return *result;
}

BytesPerSecond JsonNode::bytes_per_second() const {
  if (is_missing()) return BytesPerSecond{1};
  const auto result = is_string() ? parse_bytes_per_second(value_->text) : std::nullopt;
  if (!result) fail_expected(std::string(kBytesPerSecondExpected));
  if (result->value <= 0) fail_expected("a rate above zero");
  return *result;
}

FlopsPerSecond JsonNode::flops_per_second() const {
  if (is_missing()) return FlopsPerSecond{1};
  const auto result = is_string() ? parse_flops_per_second(value_->text) : std::nullopt;
  if (!result) fail_expected(std::string(kFlopsPerSecondExpected));
  if (result->value <= 0) fail_expected("a rate above zero");
  return *result;
}

Seconds JsonNode::seconds() const {
  if (is_missing()) return Seconds{1};
  const auto result = is_string() ? parse_seconds(value_->text) : std::nullopt;
  if (!result) fail_expected(std::string(kSecondsExpected));
  return *result;
}

std::vector<JsonNode> JsonNode::items() const {
  if (is_missing()) return {};
  if (!is_array()) fail_expected("an array");
  std::vector<JsonNode> result;
  for (const JsonValue& item : value_->items) result.emplace_back(document_, &item);
  return result;
}

std::vector<std::string> JsonNode::words() const {
  std::vector<std::string> words;
  for (const JsonNode& word : items()) words.push_back(word.non_empty_string());
  return words;
}

std::vector<std::pair<std::string, JsonNode>> JsonNode::members() const {
  if (is_missing()) return {};
  if (!is_object()) fail_expected("an object");
  std::vector<std::pair<std::string, JsonNode>> result;
  for (const JsonMember& member : value_->members) {
    result.emplace_back(member.key, JsonNode(document_, &member.value));
  }
  return result;
}

JsonObject JsonNode::object() const { return JsonObject(*this); }

std::string JsonNode::pointer() const { return pointer_of(*document_, value_); }

std::string JsonNode::location() const { return document_->location(value_->offset); }

std::string JsonNode::describe() const {
  switch (value_->kind) {
    case JsonKind::kNull:
      return "null";
    case JsonKind::kBoolean:
      return value_->boolean ? "true" : "false";
    case JsonKind::kNumber:
      return fmt::format("number {:.40}", value_->text);
    case JsonKind::kString:
      return "string " + in_quotes(value_->text);
    case JsonKind::kArray:
      return "an array";
    case JsonKind::kObject:
      return "an object";
    case JsonKind::kMissing:
      return "nothing";
  }
  ZPLAN_ASSERT(false);
  return {};
}

void JsonNode::fail(const std::string& message) const {
  document_->fail(value_->offset, pointer(), message);
}

void JsonNode::fail_expected(const std::string& expected) const {
  fail(fmt::format("expected {}, got {}", expected, describe()));
}

JsonObject::JsonObject(JsonNode node) : node_(std::move(node)) {
  if (!node_.is_object() && !node_.is_missing()) node_.fail_expected("an object");
}

void JsonObject::remember(std::string_view key) {
  if (std::find(asked_.begin(), asked_.end(), key) == asked_.end()) asked_.emplace_back(key);
}

std::optional<JsonNode> JsonObject::optional_member(std::string_view key) {
  remember(key);
  for (const JsonMember& member : node_.value_->members) {
    if (member.key == key) return JsonNode(node_.document_, &member.value);
  }
  return std::nullopt;
}

std::vector<std::string> JsonObject::unread() const {
  std::vector<std::string> keys;
  for (const JsonMember& member : node_.value_->members)
    if (std::find(asked_.begin(), asked_.end(), member.key) == asked_.end())
      keys.push_back(member.key);
  return keys;
}

JsonNode JsonObject::member(std::string_view key) {
  static const JsonValue kAbsent(0, JsonKind::kMissing);
  if (auto node = optional_member(key)) return *node;
  const JsonDocument& document = *node_.document_;
  if (node_.is_missing()) return JsonNode(node_.document_, &kAbsent);
  if (!document.gathers) {
    JsonFault fault{node_.value_, {std::string(key)}, {}, {}};
    // Present but never asked for: perhaps misspelt.
    if (const auto nearest = nearest_name(key, unread())) fault.unknown = {*nearest};
    document.fail_with({fault});
  }
  std::vector<std::string>& missing = document.fault_of(node_.value_).missing;
  if (std::find(missing.begin(), missing.end(), key) == missing.end()) missing.emplace_back(key);
  return JsonNode(node_.document_, &kAbsent);
}

void JsonObject::schema(std::string_view tag) {
  const JsonNode node = member("schema");
  if (node.is_missing()) return;
  if (!node.is_string() || node.string() != tag) node.fail_expected(in_quotes(tag));
}

void JsonObject::finish() const {
  const JsonDocument& document = *node_.document_;
  std::vector<std::string> unknown = unread();
  if (!unknown.empty() && !document.gathers)
    document.fail_with({{node_.value_, {}, {unknown.front()}, asked_}});
  if (!unknown.empty()) {
    JsonFault& fault = document.fault_of(node_.value_);
    fault.unknown = std::move(unknown);
    fault.asked = asked_;
  }
  if (node_.value_ == &document.root) document.fail_with(document.faults);
}

JsonNode gathering_faults(JsonNode root) {
  root.document_->gathers = true;
  return root;
}

JsonNode parse_json(std::string text, std::string name, int first_line) {
  auto document = parse_document(std::move(text), std::move(name), first_line);
  const JsonValue* root = &document->root;
  return JsonNode(std::move(document), root);
}

JsonNode parse_python_json(std::string text, std::string name) {
  auto document = parse_document(std::move(text), std::move(name), 1, JsonNumbers::kPython);
  const JsonValue* root = &document->root;
  return JsonNode(std::move(document), root);
}

std::string read_text_file(const std::string& path) {
  return InputFile(path, Pipes::kRead).read_all();
}

JsonNode read_json_file(const std::string& path) { return parse_json(read_text_file(path), path); }

SourcedNode read_sourced(const JsonNode& node) {
  if (node.is_number() || node.is_string() || node.is_missing())
    return {node, "stated", "stated in the file"};
  if (!node.is_object()) {
    node.fail_expected("a value, or an object with \"value\", \"source\" and \"ref\"");
  }
  JsonObject object = node.object();
  JsonNode value = object.member("value");
  std::string source =
      object.member("source").one_of({"datasheet", "measured", "fitted", "assumed"});
  std::string ref = object.member("ref").non_empty_string();
  object.finish();
  return {std::move(value), std::move(source), std::move(ref)};
}

}  // namespace zplan
