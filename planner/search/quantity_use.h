// How much a simulated step has to do with a quantity of the hardware (hwprofiles/quantities.h):
// why more of it would help, or would not.
#pragma once

#include <string>
#include <string_view>

#include "planner/search/search.h"
#include "sim/simulate.h"

namespace zplan {

// "the busiest of its links works at 93.4 % of its rate", "29.5 GiB of 30.4 GiB are taken"; empty
// where there is nothing to say.
std::string use_words(std::string_view quantity, const sim::SimResult& step, const MemoryUse& use);

}  // namespace zplan
