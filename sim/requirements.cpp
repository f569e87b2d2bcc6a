#include "sim/requirements.h"

#include <algorithm>
#include <tuple>

#include "planner/core/error.h"

namespace zplan::sim {
namespace {

Requirement requirement_of(const ProgramIndex& index, const Edge& edge, std::size_t depths) {
  Iterations origin{};
  origin[static_cast<std::size_t>(edge.level)] = edge.delta;
  const auto resolve = [&](const Iterations& at) {
    const std::optional<Threshold> threshold = index.resolve(edge, at);
    ZPLAN_ASSERT(threshold.has_value());
    return *threshold;
  };
  const Threshold base = resolve(origin);
  Requirement result{base.lane, edge.reuse, edge.level, edge.delta, base.completed, {}};
  for (std::size_t d = 0; d < depths; ++d) {
    Iterations next = origin;
    ++next[d];
    result.coefficients[d] = resolve(next).completed - base.completed;
    result.constant -= result.coefficients[d] * origin[d];
  }
  return result;
}

auto all_but_constant(const Requirement& r) {
  return std::tuple(!r.reuse, r.lane, r.level, r.delta, r.coefficients);
}

// Sorts one node's requirements, reuse first, and keeps the strictest of each kind.
void reduce(std::vector<Requirement>& own) {
  std::sort(own.begin(), own.end(), [](const Requirement& a, const Requirement& b) {
    const auto key_a = all_but_constant(a), key_b = all_but_constant(b);
    return key_a != key_b ? key_a < key_b : a.constant > b.constant;
  });
  const auto same = [](const Requirement& a, const Requirement& b) {
    return all_but_constant(a) == all_but_constant(b);
  };
  own.erase(std::unique(own.begin(), own.end(), same), own.end());
}

}  // namespace

Requirements::Requirements(const ProgramIndex& index) {
  const Program& program = index.program();
  begin_.push_back(0);
  std::vector<Requirement> own;
  for (const Node& node : program.nodes) {
    depths_.push_back(static_cast<std::size_t>(program.blocks[node.block].depth) + 1);
    own.clear();
    for (const Edge& edge : program.after(node)) {
      own.push_back(requirement_of(index, edge, depths_.back()));
    }
    reduce(own);
    all_.insert(all_.end(), own.begin(), own.end());
    begin_.push_back(all_.size());
  }
}

}  // namespace zplan::sim
