#include "planner/cost/chain.h"

#include <algorithm>
#include <array>
#include <map>

namespace zplan {

// Where the two lanes are, counted from the first kernel of the walk. What has no end has begun
// before it or does not count, and comes before all that has one.
struct Chain::Walk {
  Seconds compute{};
  std::optional<Seconds> collectives{};
  std::size_t iteration = 0;
  std::array<std::map<NodeIndex, Seconds>, 2> ends{};  // by iteration
};

bool Chain::counts(const Block::Item& item) const {
  return item.is_block || times_[item.index].has_value();
}

std::optional<Seconds> Chain::ready(const Walk& walk, const Node& node) const {
  std::optional<Seconds> latest;
  for (const Edge& edge : program_.after(node)) {
    const auto delta = static_cast<std::size_t>(edge.delta);
    if (program_.nodes[edge.node].block != node.block || delta > walk.iteration ||
        edge.level != program_.blocks[node.block].depth)
      continue;
    const auto& ends = walk.ends[walk.iteration - delta];
    if (const auto at = ends.find(edge.node); at != ends.end())
      latest = std::max<std::optional<Seconds>>(latest, at->second);
  }
  return latest;
}

void Chain::pass(Walk& walk, Items items) const {
  for (const Block::Item& item : items) {
    if (!counts(item)) continue;
    if (item.is_block) {
      walk.compute += body(item.index) * program_.blocks[item.index].count;
      continue;
    }
    const Node& node = program_.nodes[item.index];
    const bool computes = node.lane == Lane::kCompute;
    const std::optional<Seconds> before = computes ? walk.compute : walk.collectives;
    const std::optional<Seconds> begin = std::max(before, ready(walk, node));
    if (!begin) continue;
    const Seconds end = *begin + *times_[item.index];
    walk.ends[walk.iteration][item.index] = end;
    if (computes)
      walk.compute = end;
    else
      walk.collectives = end;
  }
}

Seconds Chain::body(BlockIndex block) const {
  Walk walk;
  pass(walk, program_.blocks[block].items);
  return walk.compute;
}

bool Chain::waits_for_iteration_before(const Node& node) const {
  if (node.lane != Lane::kCompute) return false;
  for (const Edge& edge : program_.after(node)) {
    const Node& other = program_.nodes[edge.node];
    if (other.block == node.block && other.lane != Lane::kCompute && edge.delta == 1 &&
        times_[edge.node] && edge.level == program_.blocks[node.block].depth)
      return true;
  }
  return false;
}

// [derived] From the first kernel that waits for the iteration before to the same one of the next
// iteration passes a period; what comes before the first and from the last one on is left. n - 1
// periods and that, less n bodies.
Seconds Chain::between(BlockIndex block) const {
  const Items items = program_.blocks[block].items;
  const auto waits = [&](const Block::Item& item) {
    return !item.is_block && counts(item) && waits_for_iteration_before(program_.nodes[item.index]);
  };
  const auto cut = static_cast<std::size_t>(std::ranges::find_if(items, waits) - items.begin());
  if (cut == items.size()) return {};
  Walk around, begin;
  pass(around, items.subspan(cut));
  const Seconds rest = around.compute;
  around.iteration = 1;
  pass(around, items.first(cut));
  const std::optional<Seconds> again = ready(around, program_.nodes[items[cut].index]);
  const Seconds period = std::max(around.compute, again.value_or(around.compute));
  pass(begin, items.first(cut));
  const Seconds whole = body(block);
  return std::max(Seconds{}, period - whole - (whole - (begin.compute + rest)));
}

Seconds Chain::kernels(BlockIndex block) const {
  Seconds sum{};
  for (const Block::Item& item : program_.blocks[block].items) {
    if (!counts(item)) continue;
    if (item.is_block)
      sum += kernels(item.index) * program_.blocks[item.index].count;
    else if (program_.nodes[item.index].lane == Lane::kCompute)
      sum += *times_[item.index];
  }
  return sum;
}

}  // namespace zplan
