// Of plans those that no other one beats: in step time, GPU memory and GPUs at once.
#pragma once

#include <vector>

#include "planner/search/search.h"

namespace zplan {

// In the order given; of plans alike in all three the first.
std::vector<Simulated> pareto_front(const std::vector<Simulated>& plans);

}  // namespace zplan
