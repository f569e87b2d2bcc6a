#include "planner/foreign/syntax/text_places.h"

#include <fmt/format.h>

#include <algorithm>

#include "planner/core/text.h"

namespace zplan {

void check_config_text(const JsonDocument& document) {
  if (document.text.size() > kMostConfigBytes)
    document.fail(0, "", fmt::format("expected at most {} MiB", kMostConfigBytes >> 20));
  check_utf8(document);
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
