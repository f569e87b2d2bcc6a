#include "planner/program/instances/unroll.h"

#include <fmt/format.h>

#include <optional>
#include <utility>
#include <vector>

#include "planner/core/error.h"
#include "planner/program/instances/cursor.h"
#include "planner/program/job/tree.h"

namespace zplan {
namespace {

// Unrolls one Program. An instance of a node is found by its iterations below the root, read as the
// digits of a number whose bases are the loop counts.
class Unroller {
 public:
  explicit Unroller(const Program& folded) : folded_(folded), copies_(folded.nodes.size()) {}

  Program run() {
    result_.unit_layers = folded_.unit_layers;
    result_.buffers = folded_.buffers;
    result_.views = folded_.views;
    result_.attributes = folded_.attributes;
    result_.blocks.emplace_back();
    Iterations at{};
    copy_items(0, 0, at, Env{});
    std::vector<std::vector<Edge>> edges;
    for (const Copy& copy : order_) edges.push_back(edges_of(copy));
    set_edges(result_, edges);
    return std::move(result_);
  }

 private:
  struct Copy {
    NodeIndex node;
    Iterations at;
  };

  void copy_items(BlockIndex from, BlockIndex to, Iterations& at, const Env& env) {
    for (const Block::Item& item : folded_.blocks[from].items) {
      if (item.is_block) {
        copy_loop(item.index, to, at, env);
        continue;
      }
      const auto index = static_cast<NodeIndex>(result_.nodes.size());
      copies_[item.index].push_back(index);
      order_.push_back({item.index, at});
      result_.nodes.push_back(folded_.nodes[item.index]);
      result_.nodes.back().block = to;
      result_.blocks[to].items.push_back({false, index});
    }
  }

  void copy_loop(BlockIndex from, BlockIndex parent, Iterations& at, const Env& env) {
    const Block& loop = folded_.blocks[from];
    const auto depth = static_cast<std::size_t>(loop.depth);
    for (std::int64_t i = 0; i < loop.count; ++i) {
      Env inner = bind(loop, env, i);
      Block block;
      block.parent = parent;
      block.depth = loop.depth;
      block.var = loop.var;
      block.step = loop.step;  // which says how many units an iteration goes through
      if (const std::int64_t* value = value_of(inner, loop.var))
        block.first = static_cast<std::int32_t>(*value);
      const auto index = static_cast<BlockIndex>(result_.blocks.size());
      result_.blocks.push_back(std::move(block));
      result_.blocks[parent].items.push_back({true, index});
      at[depth] = i;
      copy_items(from, index, at, inner);
    }
    at[depth] = 0;
  }

  NodeIndex copy_of(NodeIndex node, const Iterations& at) const {
    std::int64_t number = 0, base = 1;
    for (BlockIndex b = folded_.nodes[node].block; b != 0; b = folded_.blocks[b].parent) {
      number += base * at[static_cast<std::size_t>(folded_.blocks[b].depth)];
      base *= folded_.blocks[b].count;
    }
    return copies_[node][static_cast<std::size_t>(number)];
  }

  // The instance that the edge names, by the rule at the head of program.h.
  std::optional<Edge> exact(const Edge& edge, const Copy& owner) const {
    const auto level = static_cast<std::size_t>(edge.level);
    Iterations there{};
    for (BlockIndex b = folded_.nodes[edge.node].block; b != 0; b = folded_.blocks[b].parent) {
      const auto depth = static_cast<std::size_t>(folded_.blocks[b].depth);
      const std::int64_t last = folded_.blocks[b].count - 1;
      if (depth <= level) {
        there[depth] = owner.at[depth];
      } else if (depth > level + 1 || edge.match == Match::kLast) {
        there[depth] = last;
      } else {
        const std::int64_t from = owner.at[static_cast<std::size_t>(edge.from_depth)];
        there[depth] = edge.match == Match::kSame ? from : last - from;
      }
    }
    Edge result;
    result.reuse = edge.reuse;
    if (level == 0) {
      result.delta = edge.delta;
    } else {
      there[level] -= edge.delta;
      if (there[level] < 0) return std::nullopt;
    }
    result.node = copy_of(edge.node, there);
    return result;
  }

  std::vector<Edge> edges_of(const Copy& copy) const {
    std::vector<Edge> edges;
    for (const Edge& edge : folded_.after(folded_.nodes[copy.node])) {
      if (const auto one = exact(edge, copy)) edges.push_back(*one);
    }
    return edges;
  }

  const Program& folded_;
  Program result_;
  std::vector<std::vector<NodeIndex>> copies_;  // of each node, in program order
  std::vector<Copy> order_;
};

}  // namespace

Job unroll(const Job& job) {
  Job result = job;
  for (RankClass& c : result.classes) {
    const std::int64_t nodes = ProgramIndex(c.program).all_nodes();
    if (nodes > kMaxUnrolledNodes) {
      throw_bad_input(fmt::format("expected at most {} nodes to unroll, got {} in stage {}",
                                  kMaxUnrolledNodes, nodes, c.stage));
    }
    c.program = Unroller(c.program).run();
  }
  return result;
}

}  // namespace zplan
