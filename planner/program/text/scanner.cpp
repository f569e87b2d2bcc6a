#include "planner/program/text/scanner.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "planner/core/error.h"
#include "planner/core/text.h"

namespace zplan {
namespace {

constexpr std::size_t kShownCharacters = 40;

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool starts_word(char c) {
  return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}
bool continues_word(char c) {
  return starts_word(c) || c == '.' || c == '-' || c == '/' || c == '{' || c == '}';
}

int hex_value(char c) {
  if (is_digit(c)) return c - '0';
  return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

}  // namespace

std::string quoted_word(std::string_view word) {
  const bool plain = !word.empty() && starts_word(word[0]) &&
                     std::all_of(word.begin(), word.end(), continues_word);
  if (plain) return std::string(word);
  std::string out = "\"";
  for (char c : word) {
    if (c == '"' || c == '\\') {
      out += {'\\', c};
    } else if (c >= ' ' && c <= '~') {
      out += c;
    } else {
      out += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    }
  }
  return out + '"';
}

bool TextScanner::next_line() {
  rest_ = {};
  has_statement_ = !text_.empty();
  if (!has_statement_) return false;
  const std::size_t end = text_.find('\n');
  rest_ = text_.substr(0, end);
  text_.remove_prefix(end == std::string_view::npos ? text_.size() : end + 1);
  ++line_;
  return true;
}

void TextScanner::end_line() {
  if (!at_end()) fail("the end of the line");
  next_line();
}

void TextScanner::find_statement() {
  while (has_statement_ && at_end()) next_line();
}

bool TextScanner::statement(std::string_view word) { return has_statement_ && accept(word); }

void TextScanner::fail_statement(std::string_view expected) {
  if (!has_statement_) fail(expected, "the end of the file");
  fail(expected);
}

void TextScanner::skip_spaces() {
  while (!rest_.empty() && (rest_[0] == ' ' || rest_[0] == '\t' || rest_[0] == '\r')) {
    rest_.remove_prefix(1);
  }
}

bool TextScanner::at_end() {
  skip_spaces();
  return rest_.empty() || rest_[0] == '#';
}

std::string_view TextScanner::plain_word() const {
  if (rest_.empty() || !starts_word(rest_[0])) return {};
  const auto end = std::find_if_not(rest_.begin(), rest_.end(), continues_word);
  return rest_.substr(0, static_cast<std::size_t>(end - rest_.begin()));
}

bool TextScanner::accept(char symbol) {
  skip_spaces();
  if (rest_.empty() || rest_[0] != symbol) return false;
  rest_.remove_prefix(1);
  return true;
}

bool TextScanner::accept(std::string_view word) {
  skip_spaces();
  if (plain_word() != word) return false;
  rest_.remove_prefix(word.size());
  return true;
}

bool TextScanner::next_is_digit() {
  skip_spaces();
  return !rest_.empty() && is_digit(rest_[0]);
}

void TextScanner::expect(char symbol) {
  if (!accept(symbol)) fail(fmt::format("'{}'", symbol));
}

void TextScanner::expect(std::string_view word) {
  if (!accept(word)) fail(fmt::format("'{}'", word));
}

std::string TextScanner::word(std::string_view expected) {
  skip_spaces();
  if (!rest_.empty() && rest_[0] == '"') return quoted();
  const std::string_view found = plain_word();
  if (found.empty()) fail(expected);
  rest_.remove_prefix(found.size());
  return std::string(found);
}

std::string TextScanner::quoted() {
  std::string out;
  std::size_t i = 1;
  for (; i < rest_.size() && rest_[i] != '"'; ++i) {
    if (rest_[i] != '\\') {
      out += rest_[i];
      continue;
    }
    const char kind = i + 1 < rest_.size() ? rest_[i + 1] : '\0';
    if (kind == '"' || kind == '\\') {
      out += kind;
      ++i;
      continue;
    }
    const int high = kind == 'x' && i + 3 < rest_.size() ? hex_value(rest_[i + 2]) : -1;
    const int low = high >= 0 ? hex_value(rest_[i + 3]) : -1;
    if (low < 0) fail("\\\", \\\\ or \\xHH after a backslash");
    out += static_cast<char>(high * 16 + low);
    i += 3;
  }
  if (i == rest_.size()) fail("a closing quote");
  rest_.remove_prefix(i + 1);
  return out;
}

std::int64_t TextScanner::integer(std::string_view what, std::int64_t min, std::int64_t max) {
  skip_spaces();
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), value);
  if (error != std::errc{} || value < min || value > max) {
    fail(fmt::format("{} from {} to {}", what, min, max));
  }
  rest_.remove_prefix(static_cast<std::size_t>(end - rest_.data()));
  return value;
}

double TextScanner::number(std::string_view what, double min, double max) {
  skip_spaces();
  double value = 0;
  const auto [end, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), value);
  const bool in_range = value >= min && value <= max;  // false for NaN
  if (error != std::errc{} || !in_range) fail(fmt::format("{} from {} to {}", what, min, max));
  rest_.remove_prefix(static_cast<std::size_t>(end - rest_.data()));
  return value;
}

void TextScanner::fail(std::string_view expected) {
  if (at_end()) fail(expected, "the end of the line");
  const std::string_view shown = rest_.substr(0, rest_.find_first_of(" \t\r"));
  fail(expected, quoted_word(shown.substr(0, kShownCharacters)));
}

void TextScanner::fail(std::string_view expected, std::string_view got) const {
  fail_at(line_, expected, got);
}

void TextScanner::fail_at(int line, std::string_view expected, std::string_view got) const {
  throw_bad_input(
      fmt::format("{}:{}: expected {}, got {}", visible(file_name_), line, expected, got));
}

}  // namespace zplan
