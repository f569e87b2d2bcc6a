#include "planner/cost/step_cycle.h"

#include <algorithm>

namespace zplan {
namespace {

// Loops with more iterations are not walked whole.
constexpr std::int32_t kWalkedWhole = 8;

std::size_t index_of(Lane lane) { return static_cast<std::size_t>(lane); }

bool is_kernel_of(const Node& node, Phase phase) {
  return node.kind == OpKind::kKernel && node.lane == Lane::kCompute && node.role.phase == phase;
}

}  // namespace

// Ends are counted from the begin, or the end, of the source; what has none is not known to come
// after it.
struct StepCycle::Walk {
  struct Done {
    std::int64_t sequence = 0;  // in its lane
    SimTime end{};
  };
  Iterations at{};
  NodeIndex source = 0;
  NodeIndex target = 0;
  bool from_end = false;  // of the source's last instance; else the begin of its first one
  bool is_over = false;   // the target counts from now on
  std::optional<SimTime> result{};  // begin of the target
  std::optional<SimTime> passed{};  // end of the target's latest instance before it counts
  std::array<std::vector<Done>, kLaneCount> lanes{};

  // End of the latest one walked of the first so many on a lane.
  std::optional<SimTime> end_of(Lane lane, std::int64_t completed) const {
    const std::vector<Done>& done = lanes[index_of(lane)];
    if (done.empty() || done.front().sequence >= completed) return std::nullopt;
    // Each comes at least one after the one before it; most follow each other.
    const std::int64_t behind = std::max<std::int64_t>(0, done.back().sequence + 1 - completed);
    const std::int64_t ahead = completed - done.front().sequence;
    const std::int64_t size = std::ssize(done);
    const auto after =
        std::lower_bound(done.begin() + std::max<std::int64_t>(0, size - behind),
                         done.begin() + std::min(size, ahead), completed,
                         [](const Done& d, std::int64_t count) { return d.sequence < count; });
    return std::prev(after)->end;
  }
};

StepCycle::StepCycle(const Program& program, std::span<const OpCost> costs,
                     const std::function<bool(const Node&)>& counts)
    : program_(program),
      alone_(program.nodes.size()),
      index_(program),
      iterations_(program.blocks.size()) {
  for (std::size_t n = 0; n < alone_.size(); ++n)
    if (counts(program.nodes[n])) alone_[n] = costs[n].alone;
  for (std::size_t b = program.blocks.size(); b-- > 0;) add_up(static_cast<BlockIndex>(b));
}

// Blocks within another come after it.
void StepCycle::add_up(BlockIndex block) {
  Iteration& own = iterations_[block];
  for (const Block::Item& item : program_.blocks[block].items) {
    if (!item.is_block) {
      const std::size_t lane = index_of(program_.nodes[item.index].lane);
      own.work[lane] += alone_[item.index];
      if (!own.first[lane]) own.first[lane] = item.index;
      continue;
    }
    const Iteration& inner = iterations_[item.index];
    for (std::size_t lane = 0; lane < kLaneCount; ++lane) {
      own.work[lane] += inner.work[lane] * program_.blocks[item.index].count;
      if (!own.first[lane]) own.first[lane] = inner.first[lane];
    }
  }
  own.pace = own.work;
  if (block == 0 || program_.blocks[block].count <= kWalkedWhole) return;
  for (const Lane lane : busy_lanes(block)) {
    SimTime& pace = own.pace[index_of(lane)];
    pace = std::max(pace, around(block, *own.first[index_of(lane)]));
  }
}

// The compute lane, and the one that works longest.
std::vector<Lane> StepCycle::busy_lanes(BlockIndex block) const {
  const Iteration& own = iterations_[block];
  const auto most = std::max_element(own.work.begin(), own.work.end());
  std::vector<Lane> lanes{static_cast<Lane>(most - own.work.begin())};
  if (lanes.front() != Lane::kCompute) lanes.push_back(Lane::kCompute);
  std::erase_if(lanes, [&](Lane lane) { return !own.first[index_of(lane)]; });
  return lanes;
}

SimTime StepCycle::around(BlockIndex block, NodeIndex node) const {
  Walk walk{.source = node, .target = node};
  for (BlockIndex b = block; b != 0; b = program_.blocks[b].parent) {
    const Block& loop = program_.blocks[b];
    walk.at[static_cast<std::size_t>(loop.depth)] = loop.count > 1 ? 1 : 0;
  }
  walk.at[0] = 1;
  pass(walk, block);
  walk.is_over = true;
  ++walk.at[static_cast<std::size_t>(program_.blocks[block].depth)];
  pass(walk, block);
  return walk.result.value_or(SimTime{});
}

void StepCycle::pass(Walk& walk, BlockIndex block) const {
  for (const Block::Item& item : program_.blocks[block].items) {
    if (walk.result) return;
    item.is_block ? repeat(walk, item.index) : visit(walk, item.index);
  }
}

void StepCycle::repeat(Walk& walk, BlockIndex block) const {
  const Block& loop = program_.blocks[block];
  std::int64_t& i = walk.at[static_cast<std::size_t>(loop.depth)];
  for (i = 0; i < loop.count && !walk.result; ++i) {
    if (i == 1 && loop.count > kWalkedWhole) {
      i = loop.count - 1;
      skip(walk, block);
    }
    pass(walk, block);
  }
  i = 0;
}

// [derived] n iterations of a lane: from the begin of one to that of the next n - 1 paces, then the
// work of the last one.
void StepCycle::skip(Walk& walk, BlockIndex block) const {
  const Iteration& one = iterations_[block];
  const std::int64_t skipped = program_.blocks[block].count - 2;
  for (std::size_t lane = 0; lane < kLaneCount; ++lane) {
    std::vector<Walk::Done>& done = walk.lanes[lane];
    if (!one.first[lane] || done.empty()) continue;
    const SimTime end = done.back().end + one.pace[lane] * (skipped - 1) + one.work[lane];
    done.push_back({index_.lane_sequence(*one.first[lane], walk.at) - 1, end});
  }
}

void StepCycle::visit(Walk& walk, NodeIndex index) const {
  const Node& node = program_.nodes[index];
  std::vector<Walk::Done>& done = walk.lanes[index_of(node.lane)];
  std::optional<SimTime> begin;
  if (!done.empty()) begin = done.back().end;
  for (const Edge& edge : program_.after(node))
    if (const std::optional<Threshold> needed = index_.resolve(edge, walk.at))
      begin = std::max(begin, walk.end_of(needed->lane, needed->completed));
  if (walk.is_over && index == walk.target) {
    walk.result = begin.value_or(SimTime{});
    return;
  }
  const bool is_source = index == walk.source && !walk.is_over && (walk.from_end || !begin);
  if (!begin && !is_source) return;
  const SimTime length = is_source && walk.from_end ? SimTime{} : alone_[index];
  if (is_source && walk.from_end)
    for (std::vector<Walk::Done>& lane : walk.lanes) lane.clear();
  const SimTime from = is_source ? SimTime{} : *begin;
  done.push_back({index_.lane_sequence(index, walk.at), from + length});
  if (index == walk.target) walk.passed = from + length;
}

SimTime StepCycle::period() const {
  SimTime longest{};
  for (const Lane lane : busy_lanes(0))
    longest = std::max(longest, around(0, *iterations_[0].first[index_of(lane)]));
  return longest;
}

std::optional<std::pair<NodeIndex, NodeIndex>> StepCycle::ends_of_passes() const {
  std::optional<NodeIndex> first, last;
  for (std::size_t i = 0; i < program_.nodes.size(); ++i) {
    const Node& node = program_.nodes[i];
    // Nothing orders what a kernel that fills with zeros waits for.
    const bool fills = node.kernel == KernelId::kFillZero;
    if (!first && !fills && is_kernel_of(node, Phase::kForward)) first = static_cast<NodeIndex>(i);
    if (is_kernel_of(node, Phase::kBackward)) last = static_cast<NodeIndex>(i);
  }
  if (!first || !last) return std::nullopt;
  return std::pair(*first, *last);
}

SimTime StepCycle::through() const {
  const auto ends = ends_of_passes();
  if (!ends) return {};
  Walk walk{.source = ends->first, .target = ends->second};
  walk.at[0] = 1;
  pass(walk, 0);
  return walk.passed.value_or(SimTime{});
}

SimTime StepCycle::turn() const {
  const auto ends = ends_of_passes();
  if (!ends) return {};
  Walk walk{.source = ends->second, .target = ends->first, .from_end = true};
  walk.at[0] = 1;
  pass(walk, 0);
  walk.is_over = true;
  ++walk.at[0];
  pass(walk, 0);
  return walk.result.value_or(SimTime{});
}

}  // namespace zplan
