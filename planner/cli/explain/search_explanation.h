// What a search says of its space: its counts, and the gap, whose open plan and bound are unfolded;
// what of the plan answered is outside that space.
#pragma once

#include "planner/search/explanation.h"
#include "planner/search/search.h"

namespace zplan {

void explain_search(const SearchResult& search, const ModelConfig& model, const Cluster& cluster,
                    const Pins& pins, Explanations& out);

}  // namespace zplan
