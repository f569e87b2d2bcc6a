// Why the families that lost did: one line each, from the best plan of the family as far as the
// search came with it. Nothing more is lowered for them: what a bound says is enough.
#pragma once

#include <cstdint>
#include <vector>

#include "planner/search/leaf.h"
#include "planner/search/open_families.h"
#include "planner/search/ranking.h"

namespace zplan {

// In family order, without that of the recommended plan. The best plan of a family is the fastest
// simulated, else the one with the least bound of those not known to be too large, else one that
// was set aside, else the one least over. `open`: what was not simulated.
std::vector<Rejected> rejections(const std::vector<Leaf>& leaves, const Ranking& ranking,
                                 const OpenFamilies& open);

// Of leaves none of which fits: the one that is least over. Lowers it and, where it turns out
// worse than others are said to be, a few of those; `lowered` counts them.
std::size_t closest_leaf(std::vector<Leaf>& leaves, const Evaluator& evaluator,
                         std::int64_t& lowered);

}  // namespace zplan
