// $((..)) of a shell: whole numbers, + - * / % and parentheses.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace zplan {

// Nothing: something else, a division by zero, or more than 64 bits.
std::optional<std::int64_t> shell_arithmetic(std::string_view text);

}  // namespace zplan
