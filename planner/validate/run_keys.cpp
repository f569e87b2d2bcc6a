#include "planner/validate/run_keys.h"

#include <fmt/format.h>

#include <initializer_list>

#include "planner/core/json_edit.h"
#include "planner/validate/run_key_rows.h"
#include "planner/validate/run_spelling.h"

namespace zplan {

std::vector<std::string> parts_of(std::string_view words) {
  std::vector<std::string> parts;
  while (!words.empty()) {
    const std::size_t end = words.find('|');
    parts.emplace_back(words.substr(0, end));
    words.remove_prefix(end == words.npos ? words.size() : end + 1);
  }
  return parts;
}

std::span<const RunKey> run_keys() {
  static const std::vector<RunKey> all = rows::together(
      {statement_keys(), model_keys(), parallel_keys(), precision_keys(), software_keys()});
  return all;
}

namespace rows {
namespace {

std::string word(const JsonNode& node, const RunKey& key) {
  const std::string text = node.non_empty_string();
  if (const auto known = known_word(key, text)) return *known;
  return key.words.empty() ? text : node.one_of(parts_of(key.words));
}

template <typename Int>
Int count(const JsonNode& node, const RunKey& key) {
  return static_cast<Int>(
      node.integer(static_cast<std::int64_t>(key.least), static_cast<std::int64_t>(key.most)));
}

template <typename T, typename Write>
std::string list(const std::vector<T>& values, Write write) {
  std::string out;
  for (const T& value : values) out += (out.empty() ? "" : ", ") + write(value);
  return "[" + out + "]";
}

}  // namespace

void read_value(const JsonNode& node, const RunKey& key, std::string& to) { to = word(node, key); }
void read_value(const JsonNode& node, const RunKey& /*key*/, bool& to) { to = node.boolean(); }
void read_value(const JsonNode& node, const RunKey& key, std::int32_t& to) {
  to = count<std::int32_t>(node, key);
}
void read_value(const JsonNode& node, const RunKey& key, std::int64_t& to) {
  to = count<std::int64_t>(node, key);
}
void read_value(const JsonNode& node, const RunKey& key, double& to) {
  to = node.number(key.least, key.most);
}
void read_value(const JsonNode& node, const RunKey& key, std::vector<std::string>& to) {
  to.clear();
  for (const JsonNode& item : node.items()) to.push_back(word(item, key));
}
void read_value(const JsonNode& node, const RunKey& key, std::vector<std::int32_t>& to) {
  to.clear();
  for (const JsonNode& item : node.items()) to.push_back(count<std::int32_t>(item, key));
}

std::string write_value(const std::string& value) { return json_string(value); }
std::string write_value(bool value) { return value ? "true" : "false"; }
std::string write_value(std::int32_t value) { return std::to_string(value); }
std::string write_value(std::int64_t value) { return std::to_string(value); }
std::string write_value(double value) { return fmt::format("{}", value); }
std::string write_value(const std::vector<std::string>& values) {
  return list(values, json_string);
}
std::string write_value(const std::vector<std::int32_t>& values) {
  return list(values, [](std::int32_t value) { return std::to_string(value); });
}

std::vector<RunKey> together(std::initializer_list<std::vector<RunKey>> parts) {
  std::vector<RunKey> all;
  for (const std::vector<RunKey>& part : parts) all.insert(all.end(), part.begin(), part.end());
  return all;
}

RunKey fact(std::string_view pointer, RunKeyKind kind, RunKeyUse use, RunKey row) {
  row.pointer = pointer;
  row.kind = kind;
  row.use = use;
  return row;
}

}  // namespace rows
}  // namespace zplan
