// Rounds parts of a whole so that what is printed still adds up: by largest remainders, so that
// none is off by a unit or more, and equal ones in order.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace zplan {

// Of `units` units, which the results add up to: 1000 for tenths of a percent. `parts`: none below
// 0; where they are all 0, so are the results.
std::vector<std::int64_t> rounded_shares(std::span<const double> parts, std::int64_t units);

}  // namespace zplan
