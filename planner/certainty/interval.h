// The interval that a time lies in with a probability of 80 %, as far as its Knowledge goes.
#pragma once

#include <optional>
#include <span>
#include <vector>

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

// What a constant, or what differs between runs, adds to the ends: parts of log(low / predicted)
// and log(high / predicted), which they add up to. [derived] Variances add up, so each has a part
// of the standard deviation in proportion to its variance; correlations count half for either.
struct SpreadPart {
  std::optional<Constant> constant;  // nothing: of each run alone
  double elasticity = 0;             // of the time
  double sd = 0;                     // of the logarithm of the constant, one-sided ones included
  double low = 0, high = 0;
};
std::vector<SpreadPart> spread_parts(const Knowledge& knowledge, std::span<const double> reliances);

}  // namespace zplan
