// How sure a predicted step time is: its interval, what it rests on that nobody measured, and
// whether it is above everything that was measured on its device; the interval of one that is
// reaches at least to the time at which its use of the device would be the best that was measured.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "planner/certainty/interval.h"
#include "planner/certainty/knowledge.h"

namespace zplan {

struct Certainty {
  TimeInterval interval;
  std::vector<std::string> unknown;   // as Knowledge has them
  std::optional<BestRun> exceeded{};  // the best run of the device and format, if this is above it
};

struct Predicted {
  Seconds period{};
  double mfu = 0;
  std::span<const double> reliances{};  // by Constant
};
Certainty certainty_of(const Predicted& predicted, const Evidence& evidence,
                       const MeasuredRuns& measured, const HwProfile& node, const Kind& kind);

}  // namespace zplan
