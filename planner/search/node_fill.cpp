#include "planner/search/node_fill.h"

#include <algorithm>

namespace zplan {
namespace {

// Ranks r in [0, end) with r mod pp == stage.
std::int64_t congruent(std::int64_t end, std::int64_t stage, std::int64_t pp) {
  return end <= stage ? 0 : (end - stage - 1) / pp + 1;
}

}  // namespace

std::vector<NodeFill> node_fills(std::int32_t dp, std::int32_t pp, RankOrder order,
                                 const Cluster& cluster) {
  const std::int64_t per_node = cluster.node.devices_per_node;
  const std::int64_t world = std::int64_t{dp} * pp;
  const std::int64_t last_node = (world - 1) / per_node;
  std::vector<std::int64_t> nodes{last_node};
  if (order == RankOrder::kDataFirst) {
    // Nodes strictly inside a stage are alike; others hold the border of one.
    for (std::int64_t stage = 0; stage < pp; ++stage) {
      const std::int64_t first = stage * dp / per_node;
      const std::int64_t last = ((stage + 1) * dp - 1) / per_node;
      nodes.insert(nodes.end(), {first, std::min(first + 1, last), last});
    }
  } else {
    // The stages of a node's first rank repeat after at most pp nodes.
    for (std::int64_t node = 0; node < std::min<std::int64_t>(pp, last_node); ++node)
      nodes.push_back(node);
  }
  std::sort(nodes.begin(), nodes.end());
  nodes.erase(std::unique(nodes.begin(), nodes.end()), nodes.end());
  std::vector<NodeFill> fills;
  for (const std::int64_t node : nodes) {
    const std::int64_t begin = node * per_node;
    const std::int64_t end = std::min(world, begin + per_node);
    NodeFill& fill = fills.emplace_back();
    for (std::int64_t stage = 0; stage < pp; ++stage) {
      if (order == RankOrder::kDataFirst) {
        const std::int64_t overlap = std::min(end, (stage + 1) * dp) - std::max(begin, stage * dp);
        fill.push_back(std::max<std::int64_t>(0, overlap));
      } else {
        fill.push_back(congruent(end, stage, pp) - congruent(begin, stage, pp));
      }
    }
  }
  return fills;
}

}  // namespace zplan
