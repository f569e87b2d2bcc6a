#include "planner/program/instances/cursor.h"

#include <algorithm>
#include <utility>

#include "planner/core/error.h"
#include "planner/program/job/tree.h"

namespace zplan {

ProgramIndex::ProgramIndex(const Program& program)
    : program_(&program),
      per_iteration_(program.blocks.size()),
      block_prefix_(program.blocks.size()),
      node_prefix_(program.nodes.size()) {
  count(0);
  lane_places_.reserve(program.nodes.size());
  for (NodeIndex n = 0; n < program.nodes.size(); ++n) lane_places_.push_back(lane_place(n));
  ranges_.reserve((kLaneCount + 1) * program.blocks.size());
  for (std::size_t l = 0; l < kLaneCount; ++l) list_items(static_cast<Lane>(l));
  list_items(std::nullopt);
}

bool ProgramIndex::has_nodes(const Block::Item& item, std::optional<Lane> lane) const {
  if (!item.is_block) return !lane || program_->nodes[item.index].lane == *lane;
  const Counts& counts = per_iteration_[item.index];
  const std::int64_t nodes = lane ? counts.lane[index(*lane)] : counts.all;
  return nodes > 0 && program_->blocks[item.index].count > 0;
}

void ProgramIndex::list_items(std::optional<Lane> lane) {
  for (const Block& block : program_->blocks) {
    const std::size_t begin = items_.size();
    for (const Block::Item& item : block.items)
      if (has_nodes(item, lane)) items_.push_back(item);
    ranges_.push_back({begin, items_.size() - begin});
  }
}

void ProgramIndex::count(BlockIndex block) {
  Counts sum;
  for (const Block::Item& item : program_->blocks[block].items) {
    if (!item.is_block) {
      node_prefix_[item.index] = sum;
      ++sum.lane[index(program_->nodes[item.index].lane)];
      ++sum.all;
      continue;
    }
    block_prefix_[item.index] = sum;
    count(item.index);
    const Counts& child = per_iteration_[item.index];
    const std::int64_t times = program_->blocks[item.index].count;
    for (std::size_t l = 0; l < kLaneCount; ++l) sum.lane[l] += times * child.lane[l];
    sum.all += times * child.all;
  }
  per_iteration_[block] = sum;
}

std::vector<BlockIndex> ProgramIndex::path(BlockIndex block) const {
  std::vector<BlockIndex> result{block};
  while (result.back() != 0) result.push_back(program_->blocks[result.back()].parent);
  std::reverse(result.begin(), result.end());
  return result;
}

ProgramIndex::LanePlace ProgramIndex::lane_place(NodeIndex node) const {
  const Node& n = program_->nodes[node];
  const std::size_t lane = index(n.lane);
  LanePlace place{.constant = node_prefix_[node].lane[lane], .per_iteration = {}};
  for (BlockIndex b = n.block;; b = program_->blocks[b].parent) {
    const auto depth = static_cast<std::size_t>(program_->blocks[b].depth);
    place.per_iteration[depth] = per_iteration_[b].lane[lane];
    if (b == 0) return place;
    place.constant += block_prefix_[b].lane[lane];
  }
}

std::int64_t ProgramIndex::program_sequence(NodeIndex node, const Iterations& at) const {
  std::int64_t sequence = node_prefix_[node].all;
  for (BlockIndex b = program_->nodes[node].block;; b = program_->blocks[b].parent) {
    const Block& block = program_->blocks[b];
    sequence += at[static_cast<std::size_t>(block.depth)] * per_iteration_[b].all;
    if (b == 0) return sequence;
    sequence += block_prefix_[b].all;
  }
}

std::optional<Threshold> ProgramIndex::resolve(const Edge& edge, const Iterations& at) const {
  const auto level = static_cast<std::size_t>(edge.level);
  if (at[level] < edge.delta) return std::nullopt;
  const Node& target = program_->nodes[edge.node];
  Iterations there{};
  std::copy_n(at.begin(), level + 1, there.begin());
  there[level] -= edge.delta;
  for (BlockIndex b = target.block; program_->blocks[b].depth > edge.level;
       b = program_->blocks[b].parent) {
    const Block& block = program_->blocks[b];
    const auto depth = static_cast<std::size_t>(block.depth);
    there[depth] = block.count - 1;
    if (block.depth != edge.level + 1 || edge.match == Match::kLast) continue;
    const std::int64_t from = at[static_cast<std::size_t>(edge.from_depth)];
    there[depth] = edge.match == Match::kSame ? from : block.count - 1 - from;
  }
  return Threshold{target.lane, lane_sequence(edge.node, there) + 1, edge.reuse};
}

Cursor::Cursor(const ProgramIndex& index, std::optional<Lane> lane, bool numbers)
    : index_(&index), lane_(lane), numbers_(numbers) {
  empty_ = lane ? index.lane_nodes(*lane) == 0 : index.all_nodes() == 0;
  push(0, Env{});
  current_.lane_sequence = current_.program_sequence = numbers ? -1 : 0;
  settle();
}

void Cursor::push(BlockIndex block, const Env& outer) {
  stack_.push_back(Frame{block, index_->items(block, lane_), 0, 0, outer,
                         bind(index_->program().blocks[block], outer, 0)});
}

void Cursor::advance() {
  ++stack_.back().item;
  settle();
}

void Cursor::skip(std::size_t depth, std::int64_t iterations) {
  const auto block_of = [&](const Frame& f) -> const Block& {
    return index_->program().blocks[f.block];
  };
  stack_[depth].iteration += iterations;
  ZPLAN_ASSERT(stack_[depth].iteration < block_of(stack_[depth]).count);
  for (std::size_t d = depth; d < stack_.size(); ++d) {
    Frame& frame = stack_[d];
    if (d > depth) frame.outer = stack_[d - 1].env;
    frame.env = bind(block_of(frame), frame.outer, frame.iteration);
  }
  current_.env = stack_.back().env;
  current_.iterations[depth] = stack_[depth].iteration;
  if (!numbers_) return;
  current_.lane_sequence = index_->lane_sequence(current_.node, current_.iterations);
  current_.program_sequence = index_->program_sequence(current_.node, current_.iterations);
}

void Cursor::settle() {
  if (empty_) return;
  const Program& program = index_->program();
  while (true) {
    Frame& frame = stack_.back();
    if (frame.item == frame.items.size()) {
      const Block& block = program.blocks[frame.block];
      moved_ = true;
      const bool is_root = stack_.size() == 1;
      frame.item = 0;
      ++frame.iteration;
      if (is_root || frame.iteration < block.count) {
        frame.env = bind(block, frame.outer, frame.iteration);
      } else {
        stack_.pop_back();
        ++stack_.back().item;
      }
      continue;
    }
    const Block::Item item = frame.items[frame.item];
    if (item.is_block) {
      moved_ = true;
      push(item.index, frame.env);
      continue;
    }
    current_.node = item.index;
    if (std::exchange(moved_, false)) {
      current_.env = frame.env;
      current_.iterations = {};
      for (std::size_t d = 0; d < stack_.size(); ++d) current_.iterations[d] = stack_[d].iteration;
    }
    if (!numbers_) return;
    if (lane_) {
      ++current_.lane_sequence;
      current_.program_sequence = index_->program_sequence(item.index, current_.iterations);
    } else {
      ++current_.program_sequence;
      current_.lane_sequence = index_->lane_sequence(item.index, current_.iterations);
    }
    return;
  }
}

}  // namespace zplan
