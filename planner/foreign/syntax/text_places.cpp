#include "planner/foreign/syntax/text_places.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "planner/core/text.h"

namespace zplan {

void check_config_text(const JsonDocument& document) {
  if (document.text.size() > kMostConfigBytes)
    document.fail(0, "", fmt::format("expected at most {} MiB", kMostConfigBytes >> 20));
  check_utf8(document);
}

std::string json_number(std::string_view word) {
  std::string out;
  std::size_t i = 0;
  if (i < word.size() && (word[i] == '+' || word[i] == '-')) out += word[i++] == '-' ? "-" : "";
  const auto digits = [&] {
    const std::size_t before = out.size();
    for (; i < word.size() &&
           (std::isdigit(static_cast<unsigned char>(word[i])) != 0 || word[i] == '_');
         ++i)
      if (word[i] != '_') out += word[i];
    return out.size() - before;
  };
  const std::size_t at = out.size();
  const std::size_t whole = digits();
  if (whole > 1 && out[at] == '0') return "";  // octal
  if (whole == 0) out += '0';
  std::size_t rest = 0;
  if (i < word.size() && word[i] == '.') {
    ++i;
    out += '.';
    rest = digits();
    if (rest == 0) out += '0';
  }
  if (whole + rest == 0) return "";
  if (i < word.size() && (word[i] == 'e' || word[i] == 'E')) {
    out += word[i++];
    if (i < word.size() && (word[i] == '+' || word[i] == '-')) out += word[i++];
    if (digits() == 0) return "";
  }
  return i == word.size() ? out : "";
}

TextPlaces::TextPlaces(std::string_view text) : text_(text), lines_{0} {
  for (std::size_t i = 0; i < text.size(); ++i)
    if (text[i] == '\n') lines_.push_back(i + 1);
}

std::size_t TextPlaces::begin(int line) const {
  const auto at = static_cast<std::size_t>(std::max(line, 0));
  return at < lines_.size() ? lines_[at] : text_.size();
}

std::size_t TextPlaces::offset(int line, int column) const {
  return std::min(begin(line) + static_cast<std::size_t>(std::max(column, 0)), text_.size());
}

std::size_t TextPlaces::offset_of_character(int line, int column) const {
  std::size_t at = begin(line);
  for (int i = 0; i < column && at < text_.size(); ++i)
    at += std::max<std::size_t>(utf8_length(text_, at), 1);
  return std::min(at, text_.size());
}

}  // namespace zplan
