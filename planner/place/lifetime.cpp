#include "planner/place/lifetime.h"

#include <algorithm>
#include <numeric>
#include <string>
#include <utility>

#include "planner/core/error.h"
#include "planner/program/job/tree.h"

namespace zplan {
namespace {

struct Use {
  NodeIndex node = 0;
  const View* view = nullptr;
  std::uint32_t cut_begin = 0, cut_end = 0;  // pieces of the slot the view covers
};

struct NodeRange {
  NodeIndex first = ~NodeIndex{0};
  NodeIndex last = 0;
};

// Nodes of each block, those of its inner blocks included.
std::vector<NodeRange> node_ranges(const Program& p) {
  std::vector<NodeRange> ranges(p.blocks.size());
  for (NodeIndex n = 0; n < p.nodes.size(); ++n) {
    for (BlockIndex b = p.nodes[n].block;; b = p.blocks[b].parent) {
      ranges[b].first = std::min(ranges[b].first, n);
      ranges[b].last = std::max(ranges[b].last, n);
      if (b == 0) break;
    }
  }
  return ranges;
}

// Walks the accesses of one buffer at a time.
class BufferAnalysis {
 public:
  BufferAnalysis(const Program& program, const Mesh& mesh)
      : p_(program), mesh_(mesh), ranges_(node_ranges(program)) {}

  Lifetime lifetime(const Buffer& buffer, std::span<Use> uses) {
    buffer_ = &buffer;
    uses_ = uses;
    return hull(find_scope());
  }

 private:
  const Block& block(BlockIndex b) const { return p_.blocks[b]; }
  BlockIndex block_of(const Use& use) const { return p_.nodes[use.node].block; }

  // Splits the slot at the borders of all views, so that every view covers whole pieces.
  void cut_slot(const MeshPoint& at) {
    const auto begin = [&](const View& v) { return v.begin(at); };
    cuts_.clear();
    for (const Use& use : uses_) {
      cuts_.push_back(begin(*use.view).value);
      cuts_.push_back((begin(*use.view) + use.view->bytes()).value);
    }
    std::sort(cuts_.begin(), cuts_.end());
    cuts_.erase(std::unique(cuts_.begin(), cuts_.end()), cuts_.end());
    const auto piece = [&](Bytes border) {
      const auto found = std::lower_bound(cuts_.begin(), cuts_.end(), border.value);
      return static_cast<std::uint32_t>(found - cuts_.begin());
    };
    for (Use& use : uses_) {
      use.cut_begin = piece(begin(*use.view));
      use.cut_end = piece(begin(*use.view) + use.view->bytes());
    }
  }

  BlockIndex find_scope() {
    BlockIndex scope = block_of(uses_.front());
    for (const Use& use : uses_) scope = common_ancestor(p_, scope, block_of(use));
    while (true) {
      BlockIndex loop = scope;
      while (loop != 0 && block(loop).count <= 1) loop = block(loop).parent;
      if (!carried_by(loop)) return scope;
      if (loop == 0) fail();
      scope = block(loop).parent;
    }
  }

  // Rule 2. At the root every slot expression is the same in each step.
  bool carried_by(BlockIndex loop) {
    if (loop != 0 && buffer_->slots > 1)
      for (const Use& use : uses_)
        if (slot_stride(use, loop) != 0) return true;
    for (const MeshPoint& at : ends()) {
      cut_slot(at);
      const std::size_t pieces = cuts_.size() - 1;
      written_.assign(pieces * static_cast<std::size_t>(buffer_->slots), 0);
      unwritten_ = written_.size();
      if (reads_unwritten(loop, 0, uses_.size(), Env{})) return true;
    }
    return false;
  }

  // The first and the last place along each axis that the views depend on.
  std::vector<MeshPoint> ends() const {
    return mesh_.points([&](std::size_t axis) -> std::vector<std::int32_t> {
      const std::int32_t last = mesh_.axes[axis].size - 1;
      const bool depends = std::any_of(
          uses_.begin(), uses_.end(), [&](const Use& use) { return use.view->strides[axis] != 0; });
      if (!depends || last == 0) return {0};
      return {0, last};
    });
  }

  // By how many slots an access moves from one iteration of a loop around it to the next.
  std::int64_t slot_stride(const Use& use, BlockIndex loop) const {
    const Block& outer = block(loop);
    for (BlockIndex b = block_of(use); b != loop; b = block(b).parent)
      if (block(b).var == outer.var && !block(b).relative) return 0;
    return slot_rate(use.view->slot, outer) % buffer_->slots;
  }

  // Iterations of an inner loop after which uses [begin, end) repeat their slots.
  std::int64_t period(BlockIndex loop, std::size_t begin, std::size_t end) const {
    const std::int64_t slots = buffer_->slots;
    std::int64_t result = 1;
    for (std::size_t i = begin; i < end && slots > 1; ++i)
      result = std::lcm(result, slots / std::gcd(slots, slot_stride(uses_[i], loop)));
    return std::min<std::int64_t>(result, block(loop).count);
  }

  // One iteration of `at`, whose accesses are uses [begin, end), with its variables bound in env.
  bool reads_unwritten(BlockIndex at, std::size_t begin, std::size_t end, const Env& env) {
    for (std::size_t i = begin; i < end;) {
      if (unwritten_ == 0) return false;
      std::size_t j = i + 1;
      if (block_of(uses_[i]) == at) {
        while (j < end && uses_[j].node == uses_[i].node) ++j;
        if (node_reads_unwritten(uses_.subspan(i, j - i), env)) return true;
      } else {
        const BlockIndex child = ancestor(p_, block_of(uses_[i]), block(at).depth + 1);
        while (j < end && uses_[j].node <= ranges_[child].last) ++j;
        const std::int64_t count = period(child, i, j);
        for (std::int64_t k = 0; k < count; ++k)
          if (reads_unwritten(child, i, j, bind(block(child), env, k))) return true;
      }
      i = j;
    }
    return false;
  }

  bool node_reads_unwritten(std::span<const Use> operands, const Env& env) {
    for (const Use& use : operands) {
      if (!reads(use.view->access)) continue;
      const auto pieces = pieces_of(use, env);
      if (std::find(pieces.begin(), pieces.end(), 0) == pieces.end()) continue;
      culprit_ = use.node;
      return true;
    }
    for (const Use& use : operands) {
      if (!writes(use.view->access)) continue;
      for (std::uint8_t& piece : pieces_of(use, env)) {
        unwritten_ -= piece == 0 ? 1 : 0;
        piece = 1;
      }
    }
    return false;
  }

  std::span<std::uint8_t> pieces_of(const Use& use, const Env& env) {
    const auto slot = static_cast<std::size_t>(use.view->slot.at(env, buffer_->slots));
    return std::span(written_).subspan(slot * (cuts_.size() - 1) + use.cut_begin,
                                       use.cut_end - use.cut_begin);
  }

  // Rule 3.
  Lifetime hull(BlockIndex scope) const {
    NodeRange hull;
    for (const Use& use : uses_) {
      NodeRange range{use.node, use.node};
      for (std::int32_t d = block(scope).depth + 1; d <= block(block_of(use)).depth; ++d) {
        const BlockIndex child = ancestor(p_, block_of(use), d);
        if (block(child).count <= 1) continue;
        range = ranges_[child];
        break;
      }
      hull = {std::min(hull.first, range.first), std::max(hull.last, range.last)};
    }
    return {hull.first, hull.last};
  }

  [[noreturn]] void fail() const {
    throw Error(ExitCode::kInternal, "buffer '" + buffer_->name + "' is not persistent, but " +
                                         name(p_.nodes[culprit_].role) +
                                         " reads it before the step has written it");
  }

  const Program& p_;
  const Mesh& mesh_;
  std::vector<NodeRange> ranges_;
  const Buffer* buffer_ = nullptr;
  std::span<Use> uses_;
  std::vector<std::int64_t> cuts_;
  std::vector<std::uint8_t> written_;  // [slot, piece]
  std::size_t unwritten_ = 0;
  NodeIndex culprit_ = 0;
};

// Accesses of each buffer in program order, contiguous; begin[b] .. begin[b + 1].
struct UsesByBuffer {
  explicit UsesByBuffer(const Program& p) : begin(p.buffers.size() + 1, 0) {
    for (const Node& n : p.nodes)
      for (const View& v : p.operands(n)) ++begin[v.buffer + 1];
    std::partial_sum(begin.begin(), begin.end(), begin.begin());
    uses.resize(begin.back());
    std::vector<std::size_t> next(begin.begin(), begin.end() - 1);
    for (NodeIndex n = 0; n < p.nodes.size(); ++n)
      for (const View& v : p.operands(p.nodes[n])) uses[next[v.buffer]++] = {n, &v};
  }
  std::span<Use> of(BufferId id) {
    return std::span(uses).subspan(begin[id], begin[id + 1] - begin[id]);
  }

  std::vector<std::size_t> begin;
  std::vector<Use> uses;
};

NodeIndex last_position(const Program& p) {
  return p.nodes.empty() ? 0 : static_cast<NodeIndex>(p.nodes.size() - 1);
}

}  // namespace

std::vector<Lifetime> lifetimes(const Program& program, const Mesh& mesh) {
  UsesByBuffer uses(program);
  BufferAnalysis analysis(program, mesh);
  std::vector<Lifetime> result(program.buffers.size());
  for (BufferId id = 0; id < program.buffers.size(); ++id) {
    const Buffer& buffer = program.buffers[id];
    if (buffer.persistent) {
      result[id] = {0, last_position(program)};
    } else if (!uses.of(id).empty()) {
      result[id] = analysis.lifetime(buffer, uses.of(id));
    }
  }
  return result;
}

JobLifetimes lifetimes(const Job& job) {
  JobLifetimes result;
  for (const RankClass& rank_class : job.classes)
    result.push_back(lifetimes(rank_class.program, job.mesh));
  return result;
}

std::array<LivePeak, kTierCount> live_peaks(const Program& program,
                                            const std::vector<Lifetime>& lives) {
  std::array<LivePeak, kTierCount> peaks;
  const std::size_t positions = std::size_t{last_position(program)} + 1;
  std::vector<std::int64_t> change(positions + 1);
  for (std::size_t tier = 0; tier < kTierCount; ++tier) {
    std::fill(change.begin(), change.end(), 0);
    for (std::size_t b = 0; b < lives.size(); ++b) {
      const Buffer& buffer = program.buffers[b];
      if (static_cast<std::size_t>(buffer.tier) != tier || !lives[b].used()) continue;
      change[lives[b].first] += buffer.size().value;
      change[std::size_t{lives[b].last} + 1] -= buffer.size().value;
    }
    std::int64_t alive = 0;
    for (std::size_t at = 0; at < positions; ++at) {
      alive += change[at];
      if (alive > peaks[tier].bytes.value) peaks[tier] = {{alive}, static_cast<NodeIndex>(at)};
    }
  }
  return peaks;
}

}  // namespace zplan
