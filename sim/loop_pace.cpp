#include "sim/loop_pace.h"

#include <algorithm>

namespace zplan::sim {

std::optional<LoopPace::Range> LoopPace::range() const {
  std::optional<Range> range;
  for (std::size_t stage = 0; stage < passed_.size(); ++stage) {
    if (!taking_part_[stage]) continue;
    const Passed& own = passed_[stage];
    if (own.count < own.times.size()) return std::nullopt;
    const SimTime last = own.before(0) - own.before(kWindow);
    const SimTime first = own.before(kWindow) - own.before(2 * kWindow);
    if (!range) range = Range{last, last};
    range->least = std::min({range->least, last, first});
    range->most = std::max({range->most, last, first});
  }
  return range;
}

}  // namespace zplan::sim
