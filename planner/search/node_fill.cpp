#include "planner/search/node_fill.h"

#include <algorithm>

#include "hwprofiles/seating.h"

namespace zplan {
namespace {

// How the stages take turns: `block` ranks of one follow each other, then those of the next.
struct Turns {
  std::int64_t block, stages;
  std::int64_t round() const { return block * stages; }
  // Ranks r in [0, end) of the stage.
  std::int64_t ranks_below(std::int64_t end, std::int64_t stage) const {
    const std::int64_t last = end % round() - stage * block;
    return end / round() * block + std::clamp<std::int64_t>(last, 0, block);
  }
};

void sort_and_erase_copies(auto& list) {
  std::sort(list.begin(), list.end());
  list.erase(std::unique(list.begin(), list.end()), list.end());
}

NodeFill fill_of(std::int64_t begin, std::int64_t end, const Turns& turns) {
  NodeFill fill;
  for (std::int64_t stage = 0; stage < turns.stages; ++stage) {
    const std::int64_t ranks = turns.ranks_below(end, stage) - turns.ranks_below(begin, stage);
    if (ranks > 0) fill.push_back({static_cast<std::int32_t>(stage), ranks});
  }
  return fill;
}

}  // namespace

std::vector<NodeFill> node_fills(const Mesh& mesh, const Cluster& cluster) {
  const Axis& pipeline = mesh.axes[mesh.pipeline()];
  const Turns turns{pipeline.stride, pipeline.size};
  const std::int64_t per_node = Seating(cluster, mesh.gpus).per_node();
  const std::int64_t world = mesh.world();
  const std::int64_t last_node = (world - 1) / per_node;
  std::vector<std::int64_t> nodes{last_node};
  if (turns.round() == world) {
    // Nodes strictly inside a stage are alike; others hold the border of one.
    for (std::int64_t stage = 0; stage < turns.stages; ++stage) {
      const std::int64_t first = stage * turns.block / per_node;
      const std::int64_t last = ((stage + 1) * turns.block - 1) / per_node;
      nodes.insert(nodes.end(), {first, std::min(first + 1, last), last});
    }
  } else {
    // Where a node begins within a round repeats after at most a round of nodes.
    for (std::int64_t node = 0; node < std::min(turns.round(), last_node); ++node)
      nodes.push_back(node);
  }
  sort_and_erase_copies(nodes);
  std::vector<NodeFill> fills;
  for (const std::int64_t node : nodes) {
    const std::int64_t begin = node * per_node;
    fills.push_back(fill_of(begin, std::min(world, begin + per_node), turns));
  }
  sort_and_erase_copies(fills);
  return fills;
}

}  // namespace zplan
