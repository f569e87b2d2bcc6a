#include <algorithm>
#include <cmath>
#include <string>

#include "planner/cost/reliance.h"
#include "planner/search/sensitivity.h"

namespace zplan {
namespace {

constexpr double kBetween[] = {0.4, 0.6, 0.8};  // of the way to kCheckedChange
// Of what it is off at the end: there it has left its slope.
constexpr double kHalf = 0.5;

// What the step rests on less, or more, than it did; empty: on the same.
struct MovedRest {
  std::string less, more;
};
MovedRest moved_rest(const std::vector<double>& before, const std::vector<double>& after) {
  constexpr double kMoved = 0.001;  // of the step
  double least = -kMoved, most = kMoved;
  MovedRest moved;
  for (std::size_t k = 0; k < std::min(before.size(), after.size()); ++k) {
    const double by = std::abs(after[k]) - std::abs(before[k]);
    const auto constant = static_cast<Constant>(k);
    if (by < least) {
      least = by;
      moved.less = std::string(constant_name(constant));
    }
    if (by > most) {
      most = by;
      moved.more = std::string(constant_name(constant));
    }
  }
  return moved;
}

// By how much a step is off its slope.
Seconds off_slope(const HardwareQuantity& quantity, const PriceSide& side,
                  const sim::SimResult& step, const StepAt& there) {
  const Seconds predicted = side.slope * effort(quantity, there.factor);
  return {std::abs((there.step.period - step.period - predicted).value)};
}

}  // namespace

PriceCheck check_price(const Job& job, const Cluster& cluster, const HardwareQuantity& quantity,
                       const PriceSide& side, const sim::SimResult& step, const StepAt& there) {
  const double far = effort(quantity, there.factor);
  const Seconds change = there.step.period - step.period;
  PriceCheck check{
      .factor = there.factor, .predicted = side.slope * far, .simulated = change, .kink = {}};
  if (agrees(check.predicted, check.simulated, step.period)) return check;
  MovedRest moved = moved_rest(step.reliances, there.step.reliances);
  Kink& kink = check.kink.emplace();
  kink.less = std::move(moved.less);
  kink.more = std::move(moved.more);
  kink.from = side.factor;
  kink.to = there.factor;
  const Seconds tolerated = off_slope(quantity, side, step, there) * kHalf;
  for (const double share : kBetween) {
    const double wanted = 1 + share * (there.factor - 1);
    const std::optional<StepAt> at = step_at(job, cluster, quantity, wanted);
    if (!at || at->factor == kink.from || at->factor == there.factor) continue;
    if (off_slope(quantity, side, step, *at) > tolerated) {
      kink.to = at->factor;
      break;
    }
    kink.from = at->factor;
  }
  return check;
}

}  // namespace zplan
