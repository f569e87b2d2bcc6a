// The interval that a time lies in with a probability of 80 %, as far as its Knowledge goes.
#pragma once

#include <span>

#include "planner/certainty/knowledge.h"
#include "planner/core/units.h"

namespace zplan {

inline constexpr double kIntervalPct = 80;

// Of log(true / predicted). What can only be slower widens the interval upwards alone, so that the
// prediction stays in it.
struct Spread {
  double mean = 0, sd = 0;
  double sd_below = 0;  // without what can only be slower
};
// `reliances`: elasticities of the time by Constant.
Spread spread_of(const Knowledge& knowledge, std::span<const double> reliances);

struct TimeInterval {
  Seconds low{}, high{};
};
TimeInterval interval_of(Seconds predicted, const Spread& spread);

}  // namespace zplan
