#include "sim/loop_pace.h"

#include <algorithm>

namespace zplan::sim {
namespace {

// [assumed] as much as the rounding of sums of times.
constexpr double kSamePace = 1e-6;
// [assumed] one in so many: what holds a class up comes to its neighbours one after the other,
// while a pattern over more than a window shows in most of them.
constexpr std::size_t kFew = 16;

}  // namespace

LoopPace::Range LoopPace::range(std::size_t stage) const {
  const SimTime last = last_window(stage), first = first_window(stage);
  return {std::min(last, first), std::max(last, first)};
}

std::optional<LoopPace::Range> LoopPace::range() const {
  std::optional<Range> all;
  for (std::size_t stage = 0; stage < passed_.size(); ++stage) {
    if (!taking_part_[stage]) continue;
    if (passed_[stage].count < passed_[stage].times.size()) return std::nullopt;
    const Range own = range(stage);
    if (!all) all = own;
    all->least = std::min(all->least, own.least);
    all->most = std::max(all->most, own.most);
  }
  return all;
}

bool LoopPace::all_keep_pace(double share) const {
  const SimTime slowest = range()->most;
  std::size_t slowing_down = 0;
  bool is_kept = false;
  for (std::size_t stage = 0; stage < passed_.size(); ++stage) {
    if (!taking_part_[stage]) continue;
    const SimTime last = last_window(stage);
    if (range(stage).within(share)) {
      is_kept = is_kept || Range{last, slowest}.within(kSamePace);
    } else if (last > first_window(stage)) {
      ++slowing_down;
    } else {
      return false;
    }
  }
  return is_kept && slowing_down * kFew <= passed_.size();
}

}  // namespace zplan::sim
