#include "planner/search/node_fill.h"

#include <algorithm>

namespace zplan {
namespace {

// Ranks r in [0, end) of the stage, where rounds of pp stages with tp ranks each follow each other.
std::int64_t in_rounds(std::int64_t end, std::int64_t stage, std::int64_t tp, std::int64_t pp) {
  const std::int64_t round = tp * pp;
  return end / round * tp + std::clamp<std::int64_t>(end % round - stage * tp, 0, tp);
}

void sort_and_erase_copies(auto& list) {
  std::sort(list.begin(), list.end());
  list.erase(std::unique(list.begin(), list.end()), list.end());
}

// One stage after the other, `per_stage` ranks each.
NodeFill fill_by_stages(std::int64_t begin, std::int64_t end, std::int64_t per_stage) {
  NodeFill fill;
  for (std::int64_t stage = begin / per_stage; stage * per_stage < end; ++stage) {
    const std::int64_t from = std::max(begin, stage * per_stage);
    const std::int64_t to = std::min(end, (stage + 1) * per_stage);
    fill.push_back({static_cast<std::int32_t>(stage), to - from});
  }
  return fill;
}

NodeFill fill_by_rounds(std::int64_t begin, std::int64_t end, std::int64_t tp, std::int64_t pp) {
  NodeFill fill;
  for (std::int64_t stage = 0; stage < pp; ++stage) {
    const std::int64_t ranks = in_rounds(end, stage, tp, pp) - in_rounds(begin, stage, tp, pp);
    if (ranks > 0) fill.push_back({static_cast<std::int32_t>(stage), ranks});
  }
  return fill;
}

}  // namespace

std::vector<NodeFill> node_fills(std::int32_t dp, std::int32_t tp, std::int32_t pp, RankOrder order,
                                 const Cluster& cluster) {
  const bool by_stages = order == RankOrder::kDataFirst;
  const std::int64_t per_node = cluster.node.devices_per_node;
  const std::int64_t per_stage = std::int64_t{dp} * tp;
  const std::int64_t world = per_stage * pp;
  const std::int64_t last_node = (world - 1) / per_node;
  std::vector<std::int64_t> nodes{last_node};
  if (by_stages) {
    // Nodes strictly inside a stage are alike; others hold the border of one.
    for (std::int64_t stage = 0; stage < pp; ++stage) {
      const std::int64_t first = stage * per_stage / per_node;
      const std::int64_t last = ((stage + 1) * per_stage - 1) / per_node;
      nodes.insert(nodes.end(), {first, std::min(first + 1, last), last});
    }
  } else {
    // Where a node begins within a round repeats after at most a round of nodes.
    const std::int64_t round = std::int64_t{tp} * pp;
    for (std::int64_t node = 0; node < std::min(round, last_node); ++node) nodes.push_back(node);
  }
  sort_and_erase_copies(nodes);
  std::vector<NodeFill> fills;
  for (const std::int64_t node : nodes) {
    const std::int64_t begin = node * per_node;
    const std::int64_t end = std::min(world, begin + per_node);
    fills.push_back(by_stages ? fill_by_stages(begin, end, per_stage)
                              : fill_by_rounds(begin, end, tp, pp));
  }
  sort_and_erase_copies(fills);
  return fills;
}

}  // namespace zplan
