#include "planner/program/instances/thin_edges.h"

#include <algorithm>
#include <array>
#include <optional>

#include "planner/program/job/tree.h"

namespace zplan {
namespace {

// The iteration that an edge names at a depth: of the owner (less delta), or how it is matched.
struct Iteration {
  enum Kind : std::uint8_t { kOwners, kLast, kSame, kMirror } kind = kLast;
  std::int32_t value = 0;  // kOwners: delta; kSame, kMirror: depth of the owner's loop
  friend bool operator==(const Iteration&, const Iteration&) = default;
};

Iteration iteration_of(const Edge& edge, std::int32_t depth) {
  if (depth < edge.level) return {Iteration::kOwners, 0};
  if (depth == edge.level) return {Iteration::kOwners, edge.delta};
  if (depth > edge.level + 1 || edge.match == Match::kLast) return {};
  return {edge.match == Match::kSame ? Iteration::kSame : Iteration::kMirror, edge.from_depth};
}

enum class Order { kLater, kSameOrLater, kUnknown };

Order compare(const Iteration& a, const Iteration& b, std::int32_t count) {
  if (a == b || count == 1) return Order::kSameOrLater;
  if (a.kind == Iteration::kLast)
    return b.kind == Iteration::kOwners && b.value > 0 ? Order::kLater : Order::kSameOrLater;
  if (a.kind != Iteration::kOwners || b.kind != Iteration::kOwners) return Order::kUnknown;
  return a.value < b.value ? Order::kLater : Order::kUnknown;
}

// Edges of one node, by the lane they wait for; of those of which one covers the other only that.
class Waits {
 public:
  explicit Waits(const Program& program) : p_(program) {}

  void clear() {
    for (std::vector<Edge>& lane : lanes_) lane.clear();
  }
  bool cover(const Edge& edge) const {
    const std::vector<Edge>& known = lanes_[lane_of(edge)];
    return std::any_of(known.begin(), known.end(),
                       [&](const Edge& other) { return covers(p_, other, edge); });
  }
  void add(const Edge& edge) {
    if (cover(edge)) return;
    std::vector<Edge>& known = lanes_[lane_of(edge)];
    std::erase_if(known, [&](const Edge& other) { return covers(p_, edge, other); });
    known.push_back(edge);
  }
  std::vector<Edge> all() const {
    std::vector<Edge> result;
    for (const std::vector<Edge>& lane : lanes_)
      result.insert(result.end(), lane.begin(), lane.end());
    return result;
  }

 private:
  std::size_t lane_of(const Edge& edge) const {
    return static_cast<std::size_t>(p_.nodes[edge.node].lane);
  }

  const Program& p_;
  std::array<std::vector<Edge>, kLaneCount> lanes_;
};

class Thinner {
 public:
  Thinner(const Program& program, std::vector<std::vector<Edge>>& lists)
      : p_(program),
        lists_(lists),
        known_(program.nodes.size()),
        links_(program.nodes.size()),
        waits_(program) {
    add_lane_links();
  }

  void run(bool reuse) {
    for (NodeIndex n = 0; n < p_.nodes.size(); ++n) {
      find_implied(n);
      learn(n);
    }
    // Again, now that something is known of nodes further back in the iteration before.
    for (NodeIndex n = 0; n < p_.nodes.size(); ++n) {
      find_implied(n);
      std::vector<Edge> kept = lists_[n];
      std::erase_if(kept, [&](const Edge& e) { return e.reuse == reuse && waits_.cover(e); });
      learn(n);
      lists_[n] = std::move(kept);
    }
  }

 private:
  // What each node follows on its lane: the node before it, and the last one of the iteration
  // before of each loop around it.
  void add_lane_links() {
    constexpr NodeIndex kNone = ~NodeIndex{0};
    std::array<NodeIndex, kLaneCount> previous;
    previous.fill(kNone);
    std::vector<std::array<NodeIndex, kLaneCount>> last(p_.blocks.size(), previous);
    for (NodeIndex n = 0; n < p_.nodes.size(); ++n) {
      const Node& node = p_.nodes[n];
      const auto lane = static_cast<std::size_t>(node.lane);
      if (NodeIndex& before = previous[lane]; before != kNone) {
        const BlockIndex common = common_ancestor(p_, node.block, p_.nodes[before].block);
        links_[n].push_back({.node = before, .level = p_.blocks[common].depth});
      }
      previous[lane] = n;
      for (BlockIndex b = node.block;; b = p_.blocks[b].parent) {
        last[b][lane] = n;
        if (b == 0) break;
      }
    }
    for (NodeIndex n = 0; n < p_.nodes.size(); ++n)
      for (BlockIndex b = p_.nodes[n].block;; b = p_.blocks[b].parent) {
        if (b == 0 || p_.blocks[b].count > 1)
          links_[n].push_back({.node = last[b][static_cast<std::size_t>(p_.nodes[n].lane)],
                               .level = p_.blocks[b].depth,
                               .delta = 1});
        if (b == 0) break;
      }
  }

  void learn(NodeIndex n) {
    for (const Edge& edge : lists_[n]) waits_.add(edge);
    known_[n] = waits_.all();
  }

  // What n waits for by two links or more.
  void find_implied(NodeIndex n) {
    waits_.clear();
    for (const std::vector<Edge>* links : {&lists_[n], &links_[n]})
      for (const Edge& link : *links)
        for (const Edge& beyond : known_[link.node])
          if (p_.nodes[beyond.node].lane != p_.nodes[n].lane)
            if (const auto joined = join(link, beyond)) waits_.add(*joined);
  }

  // From x over a to y; `first`: x waits for a, `second`: a waits for y.
  std::optional<Edge> join(const Edge& first, const Edge& second) const {
    Edge result{.node = second.node};
    if (second.level > first.level) {
      if (second.delta > 0) return std::nullopt;
      result.level = first.level;
      result.delta = first.delta;
      result.match = first.match;
      result.from_depth = first.from_depth;
      if (second.match == Match::kMirror) return std::nullopt;  // of the last iteration
      return result;
    }
    if (second.level < first.level && first.delta > 0) return std::nullopt;
    result.level = second.level;
    result.delta = second.delta + (second.level == first.level ? first.delta : 0);
    return matched(first, second, result);
  }

  // `second` matches iterations of a's loop, which `first` names.
  std::optional<Edge> matched(const Edge& first, const Edge& second, Edge result) const {
    if (second.match == Match::kLast) return result;
    result.match = second.match;
    result.from_depth = second.from_depth;
    if (second.from_depth <= first.level) return result;
    const bool loop_is_matched =
        second.from_depth == first.level + 1 && first.match != Match::kLast;
    if (loop_is_matched) {
      const bool mirrored = (first.match == Match::kMirror) != (second.match == Match::kMirror);
      result.match = mirrored ? Match::kMirror : Match::kSame;
      result.from_depth = first.from_depth;
      return result;
    }
    if (second.match == Match::kMirror) return std::nullopt;
    result.match = Match::kLast;
    result.from_depth = 0;
    return result;
  }

  const Program& p_;
  std::vector<std::vector<Edge>>& lists_;
  std::vector<std::vector<Edge>> known_;  // by node: what it waits for
  std::vector<std::vector<Edge>> links_;  // by node: what it follows on its lane
  Waits waits_;
};

}  // namespace

bool covers(const Program& p, const Edge& strong, const Edge& weak) {
  const Node &s = p.nodes[strong.node], &w = p.nodes[weak.node];
  if (s.lane != w.lane) return false;
  const bool binds =
      strong.delta == 0 || (strong.level == weak.level && strong.delta <= weak.delta);
  if (!binds) return false;
  if (strong.level >= weak.level && strong.delta < weak.delta) return true;
  if (strong.level == weak.level && strong.match == weak.match &&
      strong.from_depth == weak.from_depth)
    return strong.node >= weak.node;
  const BlockIndex common = common_ancestor(p, s.block, w.block);
  for (std::int32_t depth = 0; depth <= p.blocks[common].depth; ++depth) {
    const std::int32_t count = depth == 0 ? 2 : p.blocks[ancestor(p, common, depth)].count;
    const Order order = compare(iteration_of(strong, depth), iteration_of(weak, depth), count);
    if (order == Order::kUnknown) return false;
    if (order == Order::kLater) return true;
  }
  return strong.node >= weak.node;
}

void thin_edges(const Program& program, std::vector<std::vector<Edge>>& lists, bool reuse) {
  Thinner(program, lists).run(reuse);
}

}  // namespace zplan
