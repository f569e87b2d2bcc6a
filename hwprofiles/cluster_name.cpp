#include "hwprofiles/cluster_name.h"

#include <fmt/format.h>

#include <charconv>

#include "hwprofiles/hw_profile.h"
#include "planner/core/error.h"
#include "planner/core/text.h"

namespace zplan {

std::optional<CountedName> split_count(std::string_view text) {
  const std::size_t x = text.find_last_of("xX");
  if (x == text.npos || x == 0 || x + 1 == text.size()) return std::nullopt;
  const std::string_view digits = text.substr(x + 1);
  if (digits.find_first_not_of("0123456789") != digits.npos) return std::nullopt;
  return CountedName{text.substr(0, x), digits};
}

int node_count(std::string_view text, std::string_view digits) {
  int count = 0;
  const auto status = std::from_chars(digits.data(), digits.data() + digits.size(), count).ec;
  if (status != std::errc{} || count < 1 || count > kMaxNodes) {
    throw_bad_input(fmt::format("cluster {}: expected a node count from 1 to {}, got {}",
                                in_quotes(text), kMaxNodes, digits));
  }
  return count;
}

VariedName split_settings(std::string_view text) {
  const std::size_t open = text.find_first_of("{}");
  if (open == text.npos) return {std::string(text), {}};
  VariedName name{std::string(text.substr(0, open)), {}};
  std::string_view rest = text.substr(open + 1);
  const bool ends = rest.size() > 1 && rest.find_first_of("{}") == rest.size() - 1;
  if (text[open] != '{' || !ends || rest.back() != '}')
    throw_bad_input(
        fmt::format("cluster {}: expected settings in braces at the end, such as "
                    "dgx2x32{{gpu.memory=40GiB}}",
                    in_quotes(text)));
  rest.remove_suffix(1);
  while (true) {
    const std::size_t comma = rest.find(',');
    name.settings.emplace_back(rest.substr(0, comma));
    if (comma == rest.npos) return name;
    rest.remove_prefix(comma + 1);
  }
}

std::string with_settings(std::string_view name, std::span<const std::string> settings) {
  if (settings.empty()) return std::string(name);
  const std::string added = joined(settings, ",");
  if (name.ends_with('}')) return fmt::format("{},{}}}", name.substr(0, name.size() - 1), added);
  return fmt::format("{}{{{}}}", name, added);
}

}  // namespace zplan
