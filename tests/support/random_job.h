// Random Jobs that keep every rule of the text form but mean nothing: for tests of code that walks
// or prints Programs. The same seed gives the same Job everywhere.
#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/meshes.h"
#include "tests/support/sample_job.h"

namespace zplan {

class RandomJobMaker {
 public:
  explicit RandomJobMaker(std::uint64_t seed) : random_(seed) {}

  Job make() {
    Job job;
    job.kernel_set = "cpu.f64";
    job.model = "random";
    testing_support::MeshSizes sizes;
    sizes.shards = below(3) + 1;
    sizes.dp = sizes.shards * (below(2) + 1);
    sizes.tp = below(2) + 1;
    sizes.pp = below(2) + 1;
    sizes.pipeline_first = below(2) != 0;
    job.mesh = testing_support::mesh_of(sizes);
    job.placed = below(2) == 0;
    job_ = &job;
    for (std::int32_t stage = 0; stage < sizes.pp; ++stage)
      job.classes.push_back(rank_class(stage));
    return job;
  }

 private:
  std::int32_t below(std::int32_t n) {  // std distributions differ between libraries
    return static_cast<std::int32_t>(random_() % static_cast<std::uint64_t>(n));
  }
  template <typename Enum>
  Enum one_of(int count) {
    return static_cast<Enum>(below(count));
  }

  RankClass rank_class(std::int32_t stage) {
    builder_ = SampleBuilder();
    budget_ = 12;
    const std::int32_t buffers = below(4) + 1;
    for (std::int32_t i = 0; i < buffers; ++i) {
      const auto tier = one_of<Tier>(kTierCount);
      const std::int64_t slot = tier == Tier::kGpu ? 256 * (below(3) + 5) : 4096 * (below(2) + 1);
      const BufferId id = builder_.buffer("b." + std::to_string(below(3)), slot, below(4) + 1,
                                          one_of<Category>(kCategoryCount), below(3) == 0, tier);
      builder_.at(id).unpadded = {below(3)};
    }
    items();
    add_edges();
    RankClass c;
    c.stage = stage;
    c.program = builder_.finish();
    if (job_->placed) {
      for (const Buffer& b : c.program.buffers) {
        Bytes& slab = c.placement.slab[static_cast<std::size_t>(b.tier)];
        c.placement.offset.push_back(slab);
        slab += b.size();
      }
    }
    return c;
  }

  void items() {
    const std::int32_t count = below(4) + 1;
    for (std::int32_t i = 0; i < count; ++i) {
      if (depth_ + 1 < kMaxDepth && budget_ > 0 && below(3) == 0) {
        ++depth_;
        builder_.begin(below(3) + 1, one_of<Var>(4), below(9) - 4, below(5) - 2, below(2) == 0);
        items();
        builder_.end();
        --depth_;
      } else {
        --budget_;
        node();
      }
    }
  }

  View view(Access access) {
    const auto buffers = static_cast<std::int32_t>(builder_.program().buffers.size());
    View v = sample_view(static_cast<BufferId>(below(buffers)), access, {below(4) + 1, 8},
                         {below(9) - 4, below(9) - 4, below(9) - 4, below(9) - 4}, 8 * below(4),
                         below(2) == 0 ? 256 : 0);
    v.strides[testing_support::kTp] = below(2) == 0 ? 128 : 0;
    return v;
  }

  void node() {
    Node n;
    n.role = {one_of<Phase>(6), one_of<Part>(24), one_of<Action>(20)};
    n.lane = one_of<Lane>(kLaneCount);
    n.collective = one_of<CollectiveKind>(5);
    n.kind = one_of<OpKind>(6);
    choose_ranks(n);
    n.kernel = KernelId::kFillZero;
    const Attributes attributes{below(2), Attribute{below(2), {0, below(3)}}, -below(2), 0};
    switch (n.kind) {
      case OpKind::kKernel:
      case OpKind::kSend:
      case OpKind::kReceive:
        builder_.node(n, {view(one_of<Access>(4))}, attributes);
        break;
      case OpKind::kCopy:
      case OpKind::kCollective:
        builder_.node(n, {view(Access::kRead), view(Access::kWrite)}, attributes);
        break;
      case OpKind::kMark:
        builder_.node(n, {}, attributes);
        break;
    }
  }

  void choose_ranks(Node& n) {
    using namespace testing_support::groups;
    const std::array all{kData, kEmbedding, kWorld, kTensor, kShard, kReplica};
    const Group& group = all[static_cast<std::size_t>(below(6))];
    const bool owned = (n.kind == OpKind::kKernel || n.kind == OpKind::kCopy) && below(2) == 0;
    if (owned || n.kind == OpKind::kCollective) n.group = group;
    if (n.kind != OpKind::kSend && n.kind != OpKind::kReceive) return;
    n.peer = testing_support::stage_at(below(2) == 0 ? 1 : -1);
    n.peer.wraps = below(2) == 0;
  }

  std::vector<BlockIndex> path(NodeIndex node) const {
    const Program& p = builder_.program();
    std::vector<BlockIndex> result;
    for (BlockIndex b = p.nodes[node].block;; b = p.blocks[b].parent) {
      result.insert(result.begin(), b);
      if (b == 0) return result;
    }
  }

  void add_edges() {
    const Program& p = builder_.program();
    const auto nodes = static_cast<std::int32_t>(p.nodes.size());
    for (std::int32_t i = 0; i < 2 * nodes; ++i) {
      const auto owner = static_cast<NodeIndex>(below(nodes));
      const auto target = static_cast<NodeIndex>(below(nodes));
      const auto a = path(owner), b = path(target);
      std::size_t common = 0;
      while (common < a.size() && common < b.size() && a[common] == b[common]) ++common;
      Edge edge;
      edge.node = target;
      edge.level = below(static_cast<std::int32_t>(common));
      edge.delta = below(3);
      edge.reuse = below(4) == 0;
      match_loops(edge, a, b);
      builder_.after(owner, edge);
    }
  }

  // Pairs the target's first loop below the level with a loop of the owner of equal count.
  void match_loops(Edge& edge, const std::vector<BlockIndex>& a, const std::vector<BlockIndex>& b) {
    const Program& p = builder_.program();
    const auto loop = static_cast<std::size_t>(edge.level) + 1;
    if (loop >= a.size() || loop >= b.size()) return;
    const auto from = loop + static_cast<std::size_t>(below(static_cast<int>(a.size() - loop)));
    if (p.blocks[a[from]].count != p.blocks[b[loop]].count) return;
    edge.match = one_of<Match>(3);
    if (edge.match != Match::kLast) edge.from_depth = static_cast<std::int32_t>(from);
  }

  std::mt19937_64 random_;
  SampleBuilder builder_;
  const Job* job_ = nullptr;
  int depth_ = 0;
  int budget_ = 0;
};

inline Job random_job(std::uint64_t seed) { return RandomJobMaker(seed).make(); }

}  // namespace zplan
