// Slow, obvious counterparts of planner/program/instances/cursor.h for tests: every instance of
// every node of some steps, written out in program order.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "planner/program/instances/cursor.h"

namespace zplan {

inline std::int64_t around(const Block& block, std::int64_t outer) {
  return block.relative ? (block.mirrored ? -outer : outer) : 0;
}

inline void walk_block(const Program& p, BlockIndex index, Env env, Iterations at,
                       std::vector<Instance>& out) {
  const Block& block = p.blocks[index];
  const auto depth = static_cast<std::size_t>(block.depth);
  const std::int64_t from = index == 0 ? at[0] : 0;
  const std::int64_t to = index == 0 ? at[0] + 1 : block.count;
  for (std::int64_t i = from; i < to; ++i) {
    at[depth] = i;
    Env inner = env;
    if (block.var == Var::kMicro) {
      inner.micro = around(block, env.micro) + block.first + block.step * i;
    } else if (block.var == Var::kLayer) {
      inner.layer = around(block, env.layer) + block.first + block.step * i;
    } else if (block.var == Var::kTile) {
      inner.tile = around(block, env.tile) + block.first + block.step * i;
    }
    for (const Block::Item& item : block.items) {
      if (item.is_block) {
        walk_block(p, item.index, inner, at, out);
      } else {
        out.push_back({.node = item.index, .env = inner, .iterations = at});
      }
    }
  }
}

// All instances of steps 0 .. steps-1 with their places.
inline std::vector<Instance> all_instances(const Program& p, std::int64_t steps) {
  std::vector<Instance> out;
  for (std::int64_t step = 0; step < steps; ++step) {
    Iterations at{};
    at[0] = step;
    walk_block(p, 0, Env{}, at, out);
  }
  std::array<std::int64_t, kLaneCount> lanes{};
  for (std::size_t i = 0; i < out.size(); ++i) {
    out[i].program_sequence = static_cast<std::int64_t>(i);
    out[i].lane_sequence = lanes[static_cast<std::size_t>(p.nodes[out[i].node].lane)]++;
  }
  return out;
}

// Iterations of the instance that an edge of `owner` names (see program.h); negative ones when it
// reaches before the start.
inline Iterations target_iterations(const Program& p, const Instance& owner, const Edge& edge) {
  std::vector<BlockIndex> path;  // root first
  for (BlockIndex b = p.nodes[edge.node].block;; b = p.blocks[b].parent) {
    path.insert(path.begin(), b);
    if (b == 0) break;
  }
  Iterations wanted{};
  for (std::size_t d = 0; d < path.size(); ++d) {
    const auto level = static_cast<std::size_t>(edge.level);
    const std::int64_t last = p.blocks[path[d]].count - 1;
    if (d < level) {
      wanted[d] = owner.iterations[d];
    } else if (d == level) {
      wanted[d] = owner.iterations[d] - edge.delta;
    } else if (d == level + 1 && edge.match == Match::kSame) {
      wanted[d] = owner.iterations[static_cast<std::size_t>(edge.from_depth)];
    } else if (d == level + 1 && edge.match == Match::kMirror) {
      wanted[d] = last - owner.iterations[static_cast<std::size_t>(edge.from_depth)];
    } else {
      wanted[d] = last;
    }
  }
  return wanted;
}

// That instance, nullptr when there is none.
inline const Instance* find_target(const Program& p, const std::vector<Instance>& all,
                                   const Instance& owner, const Edge& edge) {
  const Iterations wanted = target_iterations(p, owner, edge);
  const auto found = std::find_if(all.begin(), all.end(), [&](const Instance& i) {
    return i.node == edge.node && i.iterations == wanted;
  });
  return found == all.end() ? nullptr : &*found;
}

}  // namespace zplan
