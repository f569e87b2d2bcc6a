// The edges of a Program in the form the simulator evaluates most often: an edge is a threshold on
// the number of nodes a lane has completed, and that number is affine in the iterations of the
// waiting node:  completed = constant + sum over depths d of coefficient_d x iteration_d.
// The coefficients are differences of ProgramIndex::resolve, so both agree by construction.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "planner/program/instances/cursor.h"

namespace zplan::sim {

struct Requirement {
  Lane lane = Lane::kCompute;
  bool reuse = false;
  std::int32_t level = 0, delta = 0;  // binds from iteration `delta` of block level `level` on
  std::int64_t constant = 0;
  std::array<std::int64_t, kMaxDepth> coefficients{};

  bool binds(const Iterations& at) const { return at[static_cast<std::size_t>(level)] >= delta; }
  std::int64_t completed(const Iterations& at, std::size_t depths) const {
    std::int64_t sum = constant;
    for (std::size_t d = 0; d < depths; ++d) sum += coefficients[d] * at[d];
    return sum;
  }
};

// Requirements of all nodes of a Program; those of one node with reuse edges first, and of several
// edges that differ in the constant only, the strictest.
class Requirements {
 public:
  explicit Requirements(const ProgramIndex& index);

  std::span<const Requirement> of(NodeIndex node) const {
    return {all_.data() + begin_[node], begin_[node + 1] - begin_[node]};
  }
  // Depth of the node's block plus one: iterations [0, depths) count.
  std::size_t depths(NodeIndex node) const { return depths_[node]; }

 private:
  std::vector<Requirement> all_;
  std::vector<std::size_t> begin_;
  std::vector<std::size_t> depths_;
};

}  // namespace zplan::sim
