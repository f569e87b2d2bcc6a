#include "planner/foreign/frameworks/config_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "planner/core/json_document.h"
#include "planner/core/nearest.h"
#include "planner/core/text.h"

namespace zplan {
namespace {

std::optional<JsonNode> member_of(const JsonNode& node, std::string_view key) {
  return node.is_object() ? node.object().optional_member(key) : std::nullopt;
}

// What a script leaves to what is outside of it.
bool is_unknown_word(const JsonNode& node) {
  return node.is_string() && (node.string().starts_with('$') || node.string().starts_with('`'));
}

// A number that is not known: says what to do.
void check_known(const JsonNode& node) {
  if (!is_unknown_word(node)) return;
  const std::string word = node.string();
  const std::size_t name = word.find_first_not_of("${");
  const bool is_printed = word.starts_with('`') || (word.starts_with("$(") && word[2] != '(');
  const bool is_argument = name != std::string::npos && word[name] >= '0' && word[name] <= '9';
  node.fail(fmt::format("expected a number, got {}: {}", in_quotes(word),
                        is_printed ? "no command is run; write the number in a copy"
                        : is_argument
                            ? "an argument of the script; write the number in a copy"
                            : "it is not set here; set it in a copy, or write the number"));
}

// Frameworks convert what is written as 5e8.
std::int64_t whole_number(const JsonNode& node, std::int64_t min, std::int64_t max) {
  check_known(node);
  const double number = node.number(static_cast<double>(min), static_cast<double>(max));
  if (number != std::floor(number)) node.fail_expected("a whole number");
  return static_cast<std::int64_t>(number);
}

// A slip of a letter, or of one in six.
bool is_misspelt(const std::string& key, const std::vector<std::string>& known) {
  constexpr std::size_t kLettersOfASlip = 6, kLeastLetters = 4;
  const std::optional<std::string> nearest = nearest_name(key, known);
  if (!nearest) return false;
  const std::size_t slips = edit_distance(key, *nearest);
  return slips <= 1 ? key.size() >= kLeastLetters : slips * kLettersOfASlip <= key.size();
}

}  // namespace

std::optional<JsonNode> find_key(const JsonNode& root, std::string_view key) {
  std::optional<JsonNode> node = root;
  while (node && !key.empty()) {
    const std::size_t dot = key.find('.');
    node = member_of(*node, key.substr(0, dot));
    key = dot == std::string_view::npos ? std::string_view() : key.substr(dot + 1);
  }
  return node;
}

std::optional<JsonNode> arguments_of(const JsonNode& root) {
  auto arguments = find_key(root, "arguments");
  return arguments && arguments->is_object() ? arguments : std::nullopt;
}

std::optional<JsonNode> ConfigReader::find(std::string_view key) const {
  std::optional<JsonNode> node = written(key);
  if (node && (node->is_null() || is_auto(key))) return std::nullopt;
  return node;
}

std::optional<JsonNode> ConfigReader::written(std::string_view key) const {
  if (key.empty()) return root_;
  if (lookup_) return lookup_(key);
  if (auto node = find_key(root_, prefix_ + std::string(key))) return node;
  for (const auto& [other, of] : table_.other_names()) {
    const bool is_it = key == of, is_in_it = key.starts_with(of + ".");
    if (!is_it && !is_in_it) continue;
    if (auto node = find_key(root_, other + std::string(key.substr(of.size())))) return node;
  }
  return std::nullopt;
}

bool ConfigReader::is_auto(std::string_view key) const {
  const std::optional<JsonNode> node = written(key);
  return node && node->is_string() && node->string() == "auto";
}

std::int64_t ConfigReader::integer(std::string_view key, std::int64_t min, std::int64_t max) const {
  const std::optional<JsonNode> node = find(key);
  return node ? whole_number(*node, min, max) : whole_number(table_.usual(key), min, INT64_MAX);
}

bool ConfigReader::flag(std::string_view key) const {
  const std::optional<JsonNode> node = find(key);
  if (node && is_unknown_word(*node)) return true;  // it is behind a switch
  if (node && node->is_string())
    return to_lower(node->one_of({"true", "false", "True", "False"})) == "true";
  if (node) return node->boolean();
  const JsonNode& usual = table_.usual(key);
  return usual.is_boolean() && usual.boolean();
}

double ConfigReader::number(std::string_view key, double min, double max) const {
  const std::optional<JsonNode> node = find(key);
  if (node) check_known(*node);
  return (node ? *node : table_.usual(key)).number(min, max);
}

std::string ConfigReader::word(std::string_view key,
                               std::initializer_list<std::string_view> allowed) const {
  const std::optional<JsonNode> node = find(key);
  return (node ? *node : table_.usual(key)).one_of(allowed);
}

void ConfigReader::add(Trouble trouble, std::string_view key, std::string message) {
  const std::optional<JsonNode> node = written(key);
  findings_.push_back({.trouble = trouble,
                       .place = node && !key.empty() ? node->location() : "",
                       .key = std::string(key),
                       .message = std::move(message)});
}

void ConfigReader::check_keys(std::string_view owner) {
  for (const auto& [path, object] : table_.objects()) check_object(path, object, owner);
  if (!strangers_.empty()) name_strangers(owner);
}

void ConfigReader::check_object(const std::string& path, const KeyObject& object,
                                std::string_view owner) {
  const std::optional<JsonNode> node = find(path);
  if (!node) return;
  for (const auto& [written, value] : node->object().node().members()) {
    const std::string key = written.substr(written.starts_with(prefix_) ? prefix_.size() : 0);
    const std::string whole = path.empty() ? key : path + "." + key;
    if (const auto own = object.keys.find(key); own != object.keys.end()) {
      if (own->second.is_boolean() && is_unknown_word(value))
        add(Trouble::kAssumed, whole,
            fmt::format("on; {} behind it is not known here: no options are taken from it",
                        in_quotes(value.string())));
      continue;
    }
    if (object.also.contains(key)) continue;
    const auto old = object.deprecated.find(key);
    if (const auto now = table_.removed(whole)) {
      add(Trouble::kRemoved, whole,
          fmt::format("{} {} has it no longer and stops{}{}", table_.framework(), table_.version(),
                      now->empty() ? "" : ": use ", *now));
    } else if (old != object.deprecated.end()) {
      add(Trouble::kAssumed, whole, fmt::format("deprecated, read as before: use {}", old->second));
    } else {
      check_stranger(whole, object, owner);
    }
  }
}

void ConfigReader::check_stranger(const std::string& whole, const KeyObject& object,
                                  std::string_view owner) {
  std::vector<std::string> known;
  for (const auto& [key, usual] : object.keys) known.push_back(key);
  const std::string key = whole.substr(whole.rfind('.') + 1);
  if (owner.empty()) {
    add(object.refuses_unknown ? Trouble::kError : Trouble::kUnknown, whole,
        fmt::format("no key of {} {}, which {}{}", table_.framework(), table_.version(),
                    object.refuses_unknown ? "stops" : "ignores it", did_you_mean(key, known)));
  } else if (is_misspelt(key, known)) {
    add(Trouble::kUnknown, whole,
        fmt::format("no key of {} {}{}", table_.framework(), table_.version(),
                    did_you_mean(key, known)));
  } else {
    strangers_.push_back(whole);
  }
}

void ConfigReader::name_strangers(std::string_view owner) {
  constexpr std::size_t kMostNamed = 5;
  std::vector<std::string> named;  // in one line, whatever is in quotes
  for (std::size_t i = 0; i < std::min(strangers_.size(), kMostNamed); ++i)
    named.push_back(pointer_segment(strangers_[i]));
  const std::size_t more = strangers_.size() - named.size();
  add(Trouble::kAssumed, strangers_.front(),
      fmt::format("{} of {}, no key{} of {} {}: {}{}", strangers_.size(), visible(owner),
                  strangers_.size() == 1 ? "" : "s", table_.framework(), table_.version(),
                  joined(named, ", "), more > 0 ? fmt::format(" and {} more", more) : ""));
}

}  // namespace zplan
