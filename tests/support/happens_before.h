// Is every pair of accesses to the same bytes ordered, by brute force: all instances of some steps,
// the transitive closure of lane order and edges as a bit matrix, every pair looked at. Takes the
// rules of edges from program.h by brute_force.h and shares no code with verify.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "planner/program/job/job.h"
#include "tests/support/brute_force.h"

namespace zplan::testing_support {

// What is done before what, among all instances of some steps.
class HappensBefore {
 public:
  static constexpr std::int64_t kSteps = 3;
  using Row = std::vector<std::uint64_t>;  // a bit per instance

  explicit HappensBefore(const Program& p) : all_(all_instances(p, kSteps)) {
    for (std::size_t i = 0; i < all_.size(); ++i) index_[{all_[i].node, all_[i].iterations}] = i;
  }

  const std::vector<Instance>& instances() const { return all_; }

  // By instance, all that are done before it starts. `p`: the same nodes, with any edges.
  std::vector<Row> closure(const Program& p) const {
    std::vector<Row> before(all_.size(), Row((all_.size() + 63) / 64, 0));
    std::array<std::int64_t, kLaneCount> last;
    last.fill(-1);
    for (std::size_t i = 0; i < all_.size(); ++i) {
      const Node& node = p.nodes[all_[i].node];
      std::int64_t& previous = last[static_cast<std::size_t>(node.lane)];
      if (previous >= 0) join(before, i, static_cast<std::size_t>(previous));
      previous = static_cast<std::int64_t>(i);
      for (const Edge& edge : p.after(node)) {
        const auto wanted = target_iterations(p, all_[i], edge);
        const auto target = index_.find({edge.node, wanted});
        if (target != index_.end() && target->second < i) join(before, i, target->second);
      }
    }
    return before;
  }

 private:
  static void join(std::vector<Row>& before, std::size_t late, std::size_t early) {
    for (std::size_t w = 0; w < before[late].size(); ++w) before[late][w] |= before[early][w];
    before[late][early / 64] |= std::uint64_t{1} << (early % 64);
  }

  std::vector<Instance> all_;
  std::map<std::pair<NodeIndex, Iterations>, std::size_t> index_;
};

class RaceOracle {
 public:
  // The Job must be placed.
  explicit RaceOracle(const Job& job) {
    for (const RankClass& c : job.classes) classes_.emplace_back(job, c);
  }

  // `changed`: the Job with other edges, all else equal.
  bool races(const Job& changed) const {
    for (std::size_t c = 0; c < classes_.size(); ++c)
      if (changed.classes[c].program.edges != classes_[c].edges &&
          classes_[c].races(changed.classes[c].program))
        return true;
    return false;
  }

 private:
  struct Class {
    Class(const Job& job, const RankClass& c) : edges(c.program.edges), order(c.program) {
      const Program& p = c.program;
      const std::vector<Instance>& all = order.instances();
      for (std::size_t i = 0; i < all.size(); ++i) {
        for (std::size_t j = 0; j < i; ++j) {
          const Node &a = p.nodes[all[i].node], &b = p.nodes[all[j].node];
          if (a.lane != b.lane && conflict(job, c, all[i], all[j])) pairs.push_back({j, i});
        }
      }
    }

    static bool conflict(const Job& job, const RankClass& c, const Instance& x, const Instance& y) {
      const Program& p = c.program;
      for (const View& a : p.operands(p.nodes[x.node]))
        for (const View& b : p.operands(p.nodes[y.node])) {
          if (!writes(a.access) && !writes(b.access)) continue;
          if (p.buffers[a.buffer].tier != p.buffers[b.buffer].tier) continue;
          for (std::int32_t rank = 0; rank < job.world(); ++rank) {
            const std::int64_t at = address(c, a, x, job.mesh.point(rank));
            const std::int64_t other = address(c, b, y, job.mesh.point(rank));
            if (at < other + b.bytes().value && other < at + a.bytes().value) return true;
          }
        }
      return false;
    }

    static std::int64_t address(const RankClass& c, const View& v, const Instance& at,
                                const MeshPoint& place) {
      const Buffer& b = c.program.buffers[v.buffer];
      const std::int64_t slot = v.slot.at(at.env, b.slots);
      return (c.placement.offset[v.buffer] + b.slot_size * slot + v.begin(place)).value;
    }

    bool races(const Program& p) const {
      const auto before = order.closure(p);
      for (const auto& [early, late] : pairs)
        if ((before[late][early / 64] >> (early % 64) & 1) == 0) return true;
      return false;
    }

    std::vector<Edge> edges;
    HappensBefore order;
    std::vector<std::pair<std::size_t, std::size_t>> pairs;  // conflicts over lanes, earlier first
  };

  std::vector<Class> classes_;
};

}  // namespace zplan::testing_support
