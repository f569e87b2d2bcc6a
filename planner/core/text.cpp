#include "planner/core/text.h"

#include <fmt/format.h>

#include <algorithm>

namespace zplan {
namespace {

constexpr std::size_t kShownCharacters = 40;

// One character of a message: control characters would break the line or the terminal.
void append_visible(std::string& out, std::string_view sequence) {
  const auto byte = static_cast<unsigned char>(sequence[0]);
  if (byte == '\n') {
    out += "\\n";
  } else if (byte == '\t') {
    out += "\\t";
  } else if (byte < 0x20 || byte == 0x7f) {
    out += fmt::format("\\u{:04x}", byte);
  } else {
    out += sequence;
  }
}

}  // namespace

std::string to_lower(std::string_view text) {
  std::string result(text);
  for (char& c : result) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return result;
}

bool looks_like_path(std::string_view name) {
  return name.find('/') != name.npos || to_lower(name).find(".json") != std::string::npos;
}

std::size_t utf8_length(std::string_view text, std::size_t offset) {
  const auto first = static_cast<unsigned char>(text[offset]);
  const auto second =
      offset + 1 < text.size() ? static_cast<unsigned char>(text[offset + 1]) : '\0';
  if (first < 0x80) return 1;
  std::size_t length = 0;
  if (first >= 0xc2 && first <= 0xdf) length = 2;
  if (first >= 0xe0 && first <= 0xef) length = 3;
  if (first >= 0xf0 && first <= 0xf4) length = 4;
  if (length == 0) return 0;
  for (std::size_t i = 1; i < length; ++i) {
    if (offset + i >= text.size() || !is_utf8_continuation(text[offset + i])) return 0;
  }
  if (first == 0xe0 && second < 0xa0) return 0;   // overlong
  if (first == 0xed && second >= 0xa0) return 0;  // surrogate
  if (first == 0xf0 && second < 0x90) return 0;   // overlong
  if (first == 0xf4 && second >= 0x90) return 0;  // above U+10FFFF
  return length;
}

std::string visible(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) append_visible(out, text.substr(i, 1));
  return out;
}

std::string in_quotes(std::string_view text) {
  std::string out = "\"";
  std::size_t shown = 0;
  for (std::size_t i = 0; i < text.size(); ++shown) {
    if (shown == kShownCharacters) {
      out += "...";
      break;
    }
    const std::size_t length = std::max<std::size_t>(1, utf8_length(text, i));
    if (text[i] == '"') out += '\\';
    append_visible(out, text.substr(i, length));
    i += length;
  }
  return out + '"';
}

}  // namespace zplan
