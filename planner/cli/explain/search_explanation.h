// What a search says of its space: its counts, and the gap, whose open plan and bound are unfolded.
#pragma once

#include "planner/search/explanation.h"
#include "planner/search/search.h"

namespace zplan {

void explain_search(const SearchResult& search, const ModelConfig& model, const Cluster& cluster,
                    Explanations& out);

}  // namespace zplan
