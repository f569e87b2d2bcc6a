#include "planner/core/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>

namespace zplan {
namespace {

constexpr std::size_t kShownCharacters = 40;

struct CodePoints {
  std::uint32_t first, last;
};
// They change how a line looks without being seen: controls of a terminal, directions of writing
// (Unicode annex 9), letters without width, marks of places and tags.
constexpr CodePoints kUnseen[] = {{0x00, 0x1f},     {0x7f, 0x9f},      {0xad, 0xad},
                                  {0x61c, 0x61c},   {0x180e, 0x180e},  {0x200b, 0x200f},
                                  {0x2028, 0x202e}, {0x2060, 0x206f},  {0xfeff, 0xfeff},
                                  {0xfff9, 0xfffb}, {0xe0000, 0xe0fff}};

bool is_unseen(std::uint32_t point) {
  return std::ranges::any_of(
      kUnseen, [&](const CodePoints& of) { return of.first <= point && point <= of.last; });
}

// Returns the code point of a sequence that utf8_length() takes for valid.
std::uint32_t code_point(std::string_view sequence) {
  constexpr std::uint32_t kFirstBits[] = {0x7f, 0x1f, 0x0f, 0x07};
  std::uint32_t point = static_cast<unsigned char>(sequence[0]) & kFirstBits[sequence.size() - 1];
  for (const char c : sequence.substr(1))
    point = point << 6 | (static_cast<unsigned char>(c) & 0x3f);
  return point;
}

// Appends one character of a message, or one byte that is no part of a character.
void append_visible(std::string& out, std::string_view text, std::size_t length) {
  const auto byte = static_cast<unsigned char>(text[0]);
  if (length == 0) {
    out += byte;
  } else if (byte == '\n') {
    out += "\\n";
  } else if (byte == '\t') {
    out += "\\t";
  } else if (const std::uint32_t point = code_point(text.substr(0, length)); is_unseen(point)) {
    out += fmt::format("\\u{:04x}", point);
  } else {
    out += text.substr(0, length);
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
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t length = utf8_length(text, i);
    append_visible(out, text.substr(i), length);
    i += std::max<std::size_t>(1, length);
  }
  return out;
}

std::string visible_lines(std::string_view text) {
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    out += visible(text.substr(at, end - at));
    if (end < text.size()) out += '\n';
    at = end + 1;
  }
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
    const std::size_t length = utf8_length(text, i);
    if (text[i] == '"') out += '\\';
    append_visible(out, text.substr(i), length);
    i += std::max<std::size_t>(1, length);
  }
  return out + '"';
}

}  // namespace zplan
