#include "planner/core/json_document.h"

#include <fmt/format.h>

#include <algorithm>

#include "planner/core/error.h"
#include "planner/core/text.h"

namespace zplan {

std::string pointer_segment(std::string_view key) {
  std::string out;
  for (const char c : key) {
    if (c == '~') {
      out += "~0";
    } else if (c == '/') {
      out += "~1";
    } else {
      out += c;
    }
  }
  return visible(out);
}

int JsonDocument::line(std::size_t offset) const {
  const auto end = text.begin() + static_cast<std::ptrdiff_t>(std::min(offset, text.size()));
  return first_line + static_cast<int>(std::count(text.begin(), end, '\n'));
}

std::string JsonDocument::location(std::size_t offset) const {
  const std::size_t end = std::min(offset, text.size());
  const std::size_t newline = end == 0 ? std::string::npos : text.rfind('\n', end - 1);
  const std::size_t begin = newline == std::string::npos ? 0 : newline + 1;
  int column = 1;
  for (std::size_t i = begin; i < end; ++i) column += is_utf8_continuation(text[i]) ? 0 : 1;
  return fmt::format("{}:{}:{}", visible(name), line(end), column);
}

void JsonDocument::fail(std::size_t offset, std::string_view pointer,
                        const std::string& message) const {
  throw_bad_input(
      fmt::format("{}: {}: {}", location(offset), pointer.empty() ? "/" : pointer, message));
}

}  // namespace zplan
