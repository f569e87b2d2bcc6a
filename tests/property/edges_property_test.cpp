// Edges that derive_data_edges finds on random nests of micro-batch, layer and tile loops: they
// order all accesses to the same bytes by brute force, on every rank; verify's walk finds a race
// exactly where brute force does; and edges that are dropped leave the order of instances alone.
#include <gtest/gtest.h>
// gtest first
#include <rapidcheck/gtest.h>

#include <random>

#include "planner/program/instances/edges.h"
#include "planner/program/instances/thin_edges.h"
#include "planner/program/job/tree.h"
#include "planner/program/verify/hazards.h"
#include "tests/support/happens_before.h"
#include "tests/support/meshes.h"
#include "tests/support/sample_job.h"

namespace zplan {
namespace {

using testing_support::HappensBefore;
using testing_support::RaceOracle;
using EdgeLists = std::vector<std::vector<Edge>>;

// Reads and writes of a few rings of slots, each with factors of its own, now and then others.
class RingJobMaker {
 public:
  explicit RingJobMaker(std::uint64_t seed) : random_(seed) {}

  Job make() {
    for (std::int32_t id = 0; id < kBuffers; ++id) {
      builder_.buffer("b" + std::to_string(id), kSlot, below(6) + 1, Category::kActivations, true);
      usual_.push_back({0, below(5) - 2, below(5) - 2, below(3) - 1});
    }
    body(0, 16);
    Job job;
    const std::int32_t dp = below(3) + 1;
    job.mesh = testing_support::mesh_of({.dp = dp, .tp = below(2) + 1});
    RankClass c;
    c.program = builder_.finish();
    for (const Buffer& b : c.program.buffers) {
      const auto id = static_cast<BufferId>(c.placement.offset.size());
      c.homes.push_back({0, {id}, {id}, {{id}, {id}}});
      c.placement.offset.push_back(c.placement.slab[0]);
      c.placement.slab[0] += b.size();
    }
    job.classes.push_back(std::move(c));
    job.placed = true;
    return job;
  }

 private:
  static constexpr std::int32_t kBuffers = 3;
  static constexpr std::int64_t kSlot = 1024;

  std::int32_t below(std::int32_t n) {
    return static_cast<std::int32_t>(random_() % static_cast<std::uint64_t>(n));
  }

  // Loops in the order micro-batch, layer, tile, from `first` on.
  void body(int first, std::int32_t budget) {
    constexpr Var kVars[] = {Var::kMicro, Var::kLayer, Var::kTile};
    const std::int32_t items = below(3) + 2;
    for (std::int32_t i = 0; i < items; ++i) {
      const int var = first + below(3 - std::min(first, 2));
      if (var < 3 && budget > 2 && below(3) != 0) {
        const bool down = below(3) == 0;
        const std::int32_t count = below(4) + 1;
        builder_.begin(count, kVars[var], down ? count - 1 : below(2), down ? -1 : 1,
                       below(6) == 0);
        body(var + 1, budget / 2);
        builder_.end();
      } else if (first > 0 && budget > 1 && below(4) == 0) {
        builder_.begin(1, kVars[std::min(first, 3) - 1], below(5), -1, true, below(3) != 0);
        node();
        builder_.end();
      } else {
        node();
      }
    }
  }

  void node() {
    const Lane lane = static_cast<Lane>(below(3));
    Node n{.kind = OpKind::kKernel, .lane = lane};
    const View first = view(Access::kRead), second = view(static_cast<Access>(1 + below(2)));
    if (below(2) == 0) {
      builder_.node(n, {first, second});
    } else {
      builder_.node(n, {second});
    }
  }

  View view(Access access) {
    const auto id = static_cast<BufferId>(below(kBuffers));
    SlotExpr slot = usual_[id];
    slot.base = below(4);
    if (below(6) == 0) slot.per_tile = below(3) - 1;
    View v = sample_view(id, access, {below(2) == 0 ? 128 : 32}, slot);
    if (v.shape[0] == 128) return v;
    v.offset = {128 * below(3)};
    if (below(3) == 0) v.strides[testing_support::kShard] = 128;
    if (below(3) == 0) v.strides[testing_support::kTp] = 128;
    return v;
  }

  std::mt19937_64 random_;
  SampleBuilder builder_;
  std::vector<SlotExpr> usual_;
};

bool has_findings(const Job& job) {
  ClassFindings findings(0);
  check_hazards(job, job.classes[0], findings);
  return !findings.empty();
}

RC_GTEST_PROP(Edges, OrderAllAccessesToTheSameBytes, (std::uint64_t seed)) {
  Job job = RingJobMaker(seed).make();
  const RaceOracle oracle(job);
  derive_data_edges(job.classes[0].program);
  RC_ASSERT(!oracle.races(job));
  RC_ASSERT(!has_findings(job));
}

RC_GTEST_PROP(Edges, VerifyFindsARaceWhereThereIsOne, (std::uint64_t seed)) {
  Job job = RingJobMaker(seed).make();
  const RaceOracle oracle(job);
  Program& program = job.classes[0].program;
  derive_data_edges(program);
  const std::vector<Edge> derived = program.edges;
  constexpr std::int32_t kNever = 1000;
  for (Edge& edge : program.edges) {
    const std::int32_t delta = std::exchange(edge.delta, kNever);
    RC_ASSERT(oracle.races(job) == has_findings(job));
    edge.delta = delta;
  }
  RC_ASSERT(program.edges == derived);
}

// Any edges that lead back in program order, needed or not.
class EdgeMaker {
 public:
  EdgeMaker(const Program& program, std::uint64_t seed) : p_(program), random_(seed) {}

  EdgeLists make(bool reuse) {
    EdgeLists lists(p_.nodes.size());
    for (NodeIndex x = 0; x < p_.nodes.size(); ++x)
      for (NodeIndex y = 0; y < p_.nodes.size(); ++y) {
        if (p_.nodes[x].lane == p_.nodes[y].lane || below(3) == 0) continue;
        Edge edge = make(x, y);
        edge.reuse = reuse;
        lists[x].push_back(edge);
      }
    return lists;
  }

 private:
  std::int32_t below(std::int32_t n) {
    return static_cast<std::int32_t>(random_() % static_cast<std::uint64_t>(n));
  }

  Edge make(NodeIndex x, NodeIndex y) {
    const BlockIndex x_block = p_.nodes[x].block, y_block = p_.nodes[y].block;
    const std::int32_t common = p_.blocks[common_ancestor(p_, x_block, y_block)].depth;
    Edge edge{.node = y, .level = common - below(std::min(common, 1) + 1)};
    edge.delta = below(3) + (edge.level < common || y >= x ? 1 : 0);
    if (p_.blocks[y_block].depth == edge.level || p_.blocks[x_block].depth == edge.level)
      return edge;
    const std::int32_t from = edge.level + 1 + below(p_.blocks[x_block].depth - edge.level);
    const auto count = [&](BlockIndex block, std::int32_t depth) {
      return p_.blocks[ancestor(p_, block, depth)].count;
    };
    if (below(2) == 0 || count(x_block, from) != count(y_block, edge.level + 1)) return edge;
    edge.match = below(2) == 0 ? Match::kSame : Match::kMirror;
    edge.from_depth = from;
    return edge;
  }

  const Program& p_;
  std::mt19937_64 random_;
};

std::size_t total(const EdgeLists& lists) {
  std::size_t sum = 0;
  for (const std::vector<Edge>& list : lists) sum += list.size();
  return sum;
}

RC_GTEST_PROP(ThinEdges, LeaveTheOrderOfInstancesAlone, (std::uint64_t seed)) {
  Program program = RingJobMaker(seed).make().classes[0].program;
  EdgeLists data = EdgeMaker(program, seed).make(false);
  const EdgeLists reuse = EdgeMaker(program, seed + 1).make(true);
  const std::size_t before = total(data);
  const HappensBefore happens_before(program);
  const auto order = [&](const EdgeLists& lists) {
    set_edges(program, lists);
    return happens_before.closure(program);
  };

  const auto by_data = order(data);
  thin_edges(program, data, false);
  RC_ASSERT(order(data) == by_data);
  RC_CLASSIFY(total(data) < before, "some are dropped");

  EdgeLists both = data;
  for (NodeIndex n = 0; n < both.size(); ++n)
    both[n].insert(both[n].end(), reuse[n].begin(), reuse[n].end());
  const auto by_both = order(both);
  thin_edges(program, both, true);
  RC_ASSERT(order(both) == by_both);
  for (std::vector<Edge>& list : both)
    std::erase_if(list, [](const Edge& edge) { return edge.reuse; });
  RC_ASSERT(both == data);
}

RC_GTEST_PROP(ThinEdges, CoverWhatIsNoLaterOnTheSameLane, (std::uint64_t seed)) {
  const Program program = RingJobMaker(seed).make().classes[0].program;
  const EdgeLists weak = EdgeMaker(program, seed).make(false);
  const EdgeLists strong = EdgeMaker(program, seed + 1).make(false);
  const ProgramIndex index(program);
  for (const Instance& at : all_instances(program, HappensBefore::kSteps))
    for (const Edge& w : weak[at.node])
      for (const Edge& s : strong[at.node]) {
        if (!covers(program, s, w)) continue;
        const auto needed = index.resolve(w, at.iterations);
        if (!needed) continue;
        const auto met = index.resolve(s, at.iterations);
        RC_ASSERT(met.has_value() && met->lane == needed->lane);
        RC_ASSERT(met->completed >= needed->completed);
      }
}

}  // namespace
}  // namespace zplan
