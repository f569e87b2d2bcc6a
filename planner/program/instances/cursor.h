// Walks a folded Program without unrolling it.
//
// ProgramIndex precomputes, for each block and lane, how many nodes one iteration issues; so the
// place of any instance in its lane (its lane sequence number, counted from the first step) is
// arithmetic, and an edge becomes a threshold: "lane l has completed more than n nodes".
// Cursor enumerates the instances of one lane in order, or those of all lanes in program order,
// endlessly over steps. Simulator, executor and verifier all read Programs through these two, so
// they cannot disagree on what an edge means.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "planner/program/job/program.h"

namespace zplan {

// Iteration indices from the root (index 0 = step) down to the innermost block.
using Iterations = std::array<std::int64_t, kMaxDepth>;

struct Instance {
  NodeIndex node = 0;
  Env env;
  Iterations iterations{};
  std::int64_t lane_sequence = 0;     // place within its lane, over all steps
  std::int64_t program_sequence = 0;  // place within program order, over all steps
  std::int64_t step() const { return iterations[0]; }
};

// The lane must have completed at least `completed` instances.
struct Threshold {
  Lane lane = Lane::kCompute;
  std::int64_t completed = 0;
  bool reuse = false;
};

class ProgramIndex {
 public:
  explicit ProgramIndex(const Program& program);

  const Program& program() const { return *program_; }
  // Nodes issued per step on one lane, and on all.
  std::int64_t lane_nodes(Lane lane) const { return per_iteration_[0].lane[index(lane)]; }
  std::int64_t all_nodes() const { return per_iteration_[0].all; }
  // Path of blocks from the root to `block`, root first.
  std::vector<BlockIndex> path(BlockIndex block) const;
  // What the edge demands of an instance of its owner; nothing when it reaches before the start.
  std::optional<Threshold> resolve(const Edge& edge, const Iterations& at) const;
  std::int64_t lane_sequence(NodeIndex node, const Iterations& at) const {
    const LanePlace& own = lane_places_[node];
    std::int64_t sequence = own.constant;
    for (std::size_t d = 0; d < at.size(); ++d) sequence += own.per_iteration[d] * at[d];
    return sequence;
  }
  std::int64_t program_sequence(NodeIndex node, const Iterations& at) const;
  // Of a block, the items with nodes of one lane, or of any.
  std::span<const Block::Item> items(BlockIndex block, std::optional<Lane> lane) const {
    const Range& range = ranges_[list_of(lane) * per_iteration_.size() + block];
    return std::span(items_).subspan(range.begin, range.size);
  }

 private:
  struct Counts {
    std::array<std::int64_t, kLaneCount> lane{};
    std::int64_t all = 0;
  };
  struct Range {
    std::size_t begin = 0, size = 0;
  };
  // The place of a node in its lane is affine in the iterations of the blocks that it is in.
  struct LanePlace {
    std::int64_t constant = 0;
    Iterations per_iteration{};
  };
  static std::size_t index(Lane lane) { return static_cast<std::size_t>(lane); }
  static std::size_t list_of(std::optional<Lane> lane) { return lane ? index(*lane) : kLaneCount; }
  void count(BlockIndex block);
  LanePlace lane_place(NodeIndex node) const;
  void list_items(std::optional<Lane> lane);
  bool has_nodes(const Block::Item& item, std::optional<Lane> lane) const;

  const Program* program_;
  std::vector<Counts> per_iteration_;  // nodes of one iteration of each block
  std::vector<Counts> block_prefix_;   // nodes of the parent's iteration before the block
  std::vector<Counts> node_prefix_;    // nodes of the block's iteration before the node
  std::vector<LanePlace> lane_places_;
  std::vector<Block::Item> items_;  // of all lists: a lane each, then of all lanes
  std::vector<Range> ranges_;       // in items_; by list, then block
};

// Enumerates instances of one lane, or of all lanes, in program order; never ends.
class Cursor {
 public:
  // Without numbers the two sequences of the instances stay 0; it walks faster.
  Cursor(const ProgramIndex& index, std::optional<Lane> lane, bool numbers = true);
  // Instance the cursor stands on. A lane without nodes has none: check empty() first.
  const Instance& operator*() const { return current_; }
  const Instance* operator->() const { return &current_; }
  bool empty() const { return empty_; }
  void advance();
  // Jumps to the same node `iterations` later in the loop at this depth, which must reach that far.
  void skip(std::size_t depth, std::int64_t iterations);

 private:
  struct Frame {
    BlockIndex block;
    std::span<const Block::Item> items;
    std::size_t item;
    std::int64_t iteration;
    Env outer;  // values before the block's own binding
    Env env;
  };
  void push(BlockIndex block, const Env& outer);
  void settle();  // moves to the next node at or after the current position

  const ProgramIndex* index_;
  std::optional<Lane> lane_;
  bool numbers_ = true;
  bool empty_ = false;
  bool moved_ = true;  // to another iteration than current_ tells
  std::vector<Frame> stack_;
  Instance current_;
};

}  // namespace zplan
