#include "planner/foreign/frameworks/setup.h"

#include <algorithm>

namespace zplan {

bool Setup::is_broken() const {
  return std::ranges::any_of(findings, [](const Finding& finding) {
    return finding.trouble == Trouble::kError || finding.trouble == Trouble::kRemoved;
  });
}

std::string_view name(Trouble trouble) {
  constexpr std::string_view kNames[] = {"error",       "unknown",      "removed", "no_effect",
                                         "contradicts", "not_modelled", "assumed"};
  return kNames[static_cast<std::size_t>(trouble)];
}

}  // namespace zplan
