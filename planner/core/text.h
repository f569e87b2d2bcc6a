// Text for messages: what a user wrote, on one line, without characters that hide or turn others.
#pragma once

#include <concepts>
#include <cstddef>
#include <string>
#include <string_view>
#include <type_traits>

namespace zplan {

// Controls, directions of writing and what has no width are written as escapes: "\u202e".
std::string visible(std::string_view text);
std::string visible_lines(std::string_view text);  // the same, but for the ends of its lines

// In double quotes, visible, cut after 40 characters.
std::string in_quotes(std::string_view text);

// Lower case, ASCII letters only.
std::string to_lower(std::string_view text);

// The parts, texts or integers, with a text between each two of them. (fmt::join compiles fmt's own
// formatting into each source that uses it: half a second to a second and a half each.)
template <typename Parts>
std::string joined(const Parts& parts, std::string_view between) {
  std::string out;
  bool is_first = true;
  for (const auto& part : parts) {
    if (!is_first) out += between;
    is_first = false;
    if constexpr (std::integral<std::remove_cvref_t<decltype(part)>>)
      out += std::to_string(part);
    else
      out += std::string_view(part);
  }
  return out;
}

// Whether a name of a model, cluster or node is the path of a file: it has a '/' or ".json" in it
// ("node.jsonx4" is four nodes of a file).
bool looks_like_path(std::string_view name);

// Length in bytes of the valid UTF-8 sequence at `offset`, 0 when there is none.
std::size_t utf8_length(std::string_view text, std::size_t offset);

constexpr bool is_utf8_continuation(char c) {
  return (static_cast<unsigned char>(c) & 0xc0) == 0x80;
}

}  // namespace zplan
