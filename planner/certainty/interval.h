// The interval that a time lies in with a probability of 80 %, as far as its Knowledge goes.
#pragma once

#include <span>

#include "planner/certainty/knowledge.h"
#include "planner/core/units.h"

namespace zplan {

inline constexpr double kIntervalPct = 80;

// Of log(true / predicted).
struct Spread {
  double mean = 0, sd = 0;
};
// `reliances`: elasticities of the time by Constant.
Spread spread_of(const Knowledge& knowledge, std::span<const double> reliances);

struct TimeInterval {
  Seconds low{}, high{};
};
TimeInterval interval_of(Seconds predicted, const Spread& spread);

}  // namespace zplan
