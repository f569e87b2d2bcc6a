// Values of a decision that tests try, from its row of choices.h: the plain one first, then all
// words, the other position of a switch, the least count and twice the plain one, one unit of each
// kind. Texts, fractions and lists have the plain one only.
#pragma once

#include <algorithm>
#include <vector>

#include "planner/plan/choices.h"

namespace zplan::testing_support {

inline std::vector<Setting> levels_of(const Decision& row) {
  constexpr std::int64_t kFew = 4;  // of which all are tried
  const Setting plain = row.plain();
  std::vector<Setting> levels{plain};
  const auto add = [&](const Setting& level) {
    if (std::find(levels.begin(), levels.end(), level) == levels.end()) levels.push_back(level);
  };
  for (const std::string_view word : row.field.words)
    add(Setting(std::in_place_type<std::string>, word));
  if (std::holds_alternative<Gather>(plain))
    for (const Gather gather :
         {Gather::kLayer, Gather::of_layers(2), Gather::in_tiles(2), Gather::kOwned})
      add(gather);
  if (const auto* position = std::get_if<bool>(&plain)) add(!*position);
  if (const auto* count = std::get_if<std::int64_t>(&plain)) {
    add(row.range.min);
    add(2 * *count);
    if (row.range.max - row.range.min < kFew)
      for (std::int64_t n = row.range.min; n <= row.range.max; ++n) add(n);
  }
  return levels;
}

}  // namespace zplan::testing_support
