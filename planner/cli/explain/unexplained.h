// The numbers of an answer that have no explanation, and why.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace zplan {

struct Unexplained {
  std::string_view keys;  // a key or, ending in "*", all that begin so; "[]" is any element
  std::string_view why;
};
std::span<const Unexplained> unexplained();

// Why the number with this key has none; nothing: it should have one, or there is no such number.
std::optional<std::string_view> why_unexplained(const std::string& what);

}  // namespace zplan
