#include <fmt/format.h>

#include <algorithm>
#include <tuple>

#include "planner/program/kernels/kernel_table.h"
#include "planner/trace/rank_trace.h"

namespace zplan {
namespace {

using Level = std::array<std::int64_t, kTierCount>;

// Bytes alive at each node.
std::vector<Level> levels_of(const Program& program, const std::vector<Lifetime>& lives) {
  std::vector<Level> levels(program.nodes.size() + 1);
  for (std::size_t b = 0; b < lives.size(); ++b) {
    if (!lives[b].used()) continue;
    const Buffer& buffer = program.buffers[b];
    const auto tier = static_cast<std::size_t>(buffer.tier);
    levels[lives[b].first][tier] += buffer.size().value;
    levels[std::size_t{lives[b].last} + 1][tier] -= buffer.size().value;
  }
  for (std::size_t n = 1; n < levels.size(); ++n)
    for (std::size_t t = 0; t < kTierCount; ++t) levels[n][t] += levels[n - 1][t];
  levels.pop_back();
  return levels;
}

// A moment at which the lanes that set the pace have come to a node.
struct Reached {
  std::int64_t ns = 0;
  std::int64_t sequence = 0;  // in program order
  NodeIndex node = 0;
  BlockIndex fold = 0;  // iterations of this loop that are not shown begin; 0: none
};

void add_folds(const RankSpans& rank, SimTime zero, std::vector<Reached>& reached) {
  for (const FoldedSpan& fold : rank.folded()) {
    if (fold.lane != Lane::kCompute && fold.lane != Lane::kCpu) continue;
    reached.push_back({nanoseconds(fold.start, zero), -1, 0, fold.loop});
  }
}

std::vector<Reached> reached_by(const RankSpans& rank, SimTime zero) {
  std::vector<Reached> reached;
  for (const Lane lane : {Lane::kCompute, Lane::kCpu})
    for (const LaneSpan& s : rank.lane(lane))
      if (rank.shows(s.span->step))
        reached.push_back(
            {nanoseconds(s.span->start, zero), s.at.program_sequence, s.at.node, BlockIndex{0}});
  add_folds(rank, zero, reached);
  std::stable_sort(reached.begin(), reached.end(), [](const Reached& a, const Reached& b) {
    return std::tie(a.ns, a.sequence) < std::tie(b.ns, b.sequence);
  });
  return reached;
}

void raise(Level& level, const Level& by) {
  for (std::size_t t = 0; t < kTierCount; ++t) level[t] = std::max(level[t], by[t]);
}

class MemoryCounters {
 public:
  MemoryCounters(const RankSpans& rank, const std::vector<Lifetime>& lives)
      : program_(rank.program()), levels_(levels_of(program_, lives)) {
    for (std::size_t t = 0; t < kTierCount; ++t) {
      counters_[t].name = fmt::format("{} memory", name(static_cast<Tier>(t)));
      counters_[t].unit = "GiB";
    }
  }

  void reach(const Reached& to) {
    Level most{};
    if (to.fold != 0) {
      for (std::size_t n = 0; n < levels_.size(); ++n)
        if (is_within(program_, program_.nodes[n].block, to.fold)) raise(most, levels_[n]);
    } else if (to.sequence <= frontier_) {
      return;
    } else {
      const bool back = std::int64_t{to.node} <= at_;  // into the next iteration of a loop
      for (std::size_t n = back ? to.node : static_cast<std::size_t>(at_ + 1); n <= to.node; ++n)
        raise(most, levels_[n]);
      frontier_ = to.sequence;
      at_ = to.node;
    }
    put(to.ns, most);
  }
  // What comes after the last node that was reached.
  void finish(std::int64_t ns) {
    Level most{};
    for (auto n = static_cast<std::size_t>(std::max<std::int64_t>(at_, 0)); n < levels_.size(); ++n)
      raise(most, levels_[n]);
    put(ns, most);
  }
  std::array<TraceCounter, kTierCount>& counters() { return counters_; }

 private:
  void put(std::int64_t ns, const Level& level) {
    constexpr double kGiB = 1 << 30;
    for (std::size_t t = 0; t < kTierCount; ++t) {
      std::vector<TraceCounter::Point>& points = counters_[t].points;
      const double value = static_cast<double>(level[t]) / kGiB;
      if (!points.empty() && points.back().ns == ns) {
        points.back().value = std::max(points.back().value, value);
      } else if (points.empty() || points.back().value != value) {
        points.push_back({ns, value});
      }
    }
  }

  const Program& program_;
  std::vector<Level> levels_;
  std::array<TraceCounter, kTierCount> counters_;
  std::int64_t frontier_ = -1;
  std::int64_t at_ = -1;  // node
};

void add_memory(const RankSpans& rank, const std::vector<Lifetime>& lives, SimTime zero,
                std::vector<TraceCounter>& out) {
  MemoryCounters memory(rank, lives);
  for (const Reached& to : reached_by(rank, zero)) memory.reach(to);
  std::int64_t end = 0;
  for (const Span& s : rank.timeline().spans)
    if (rank.shows(s.step)) end = std::max(end, nanoseconds(s.end, zero));
  memory.finish(end);
  for (TraceCounter& counter : memory.counters()) {
    const bool used = std::any_of(counter.points.begin(), counter.points.end(),
                                  [](const TraceCounter::Point& p) { return p.value > 0; });
    if (used) out.push_back(std::move(counter));
  }
}

double folded_bytes(const Program& program, const FoldedSpan& fold) {
  double bytes = 0;
  for (const Node& node : program.nodes) {
    if (node.lane != fold.lane || !is_within(program, node.block, fold.loop)) continue;
    bytes += static_cast<double>(moved_bytes(program, node).value) *
             static_cast<double>(runs_within(program, node.block, fold.loop)) *
             static_cast<double>(fold.last - fold.first + 1);
  }
  return bytes;
}

struct Moving {
  std::int64_t start_ns, end_ns;
  double bytes;
};

std::vector<Moving> moving_on(const RankSpans& rank, Lane lane, SimTime zero) {
  std::vector<Moving> all;
  for (const LaneSpan& s : rank.lane(lane))
    if (rank.shows(s.span->step))
      all.push_back({nanoseconds(s.span->start, zero), nanoseconds(s.span->end, zero),
                     static_cast<double>(
                         moved_bytes(rank.program(), rank.program().nodes[s.at.node]).value)});
  for (const FoldedSpan& fold : rank.folded())
    if (fold.lane == lane)
      all.push_back({nanoseconds(fold.start, zero), nanoseconds(fold.end, zero),
                     folded_bytes(rank.program(), fold)});
  std::stable_sort(all.begin(), all.end(),
                   [](const Moving& a, const Moving& b) { return a.start_ns < b.start_ns; });
  return all;
}

TraceCounter rate_of(const RankSpans& rank, Lane lane, SimTime zero) {
  TraceCounter rate{fmt::format("{} rate", name(lane)), "GB/s", {}};
  for (const Moving& m : moving_on(rank, lane, zero)) {
    if (m.end_ns <= m.start_ns || m.bytes <= 0) continue;
    if (!rate.points.empty() && rate.points.back().ns == m.start_ns) rate.points.pop_back();
    // Bytes per nanosecond are GB/s.
    rate.points.push_back({m.start_ns, m.bytes / static_cast<double>(m.end_ns - m.start_ns)});
    rate.points.push_back({m.end_ns, 0});
  }
  return rate;
}

}  // namespace

bool is_within(const Program& program, BlockIndex block, BlockIndex loop) {
  while (program.blocks[block].depth > program.blocks[loop].depth)
    block = program.blocks[block].parent;
  return block == loop;
}

std::int64_t runs_within(const Program& program, BlockIndex block, BlockIndex loop) {
  std::int64_t runs = 1;
  for (; block != loop; block = program.blocks[block].parent) runs *= program.blocks[block].count;
  return runs;
}

Bytes moved_bytes(const Program& program, const Node& node) {
  if (node.kind == OpKind::kMark) return {0};
  if (node.kind == OpKind::kKernel) return demand_of(program, node).bytes;
  Bytes most{0};
  for (const View& view : program.operands(node)) most = std::max(most, view.bytes());
  return most;
}

std::vector<TraceCounter> counters_of(const RankSpans& rank, const std::vector<Lifetime>& lives,
                                      SimTime zero) {
  std::vector<TraceCounter> counters;
  add_memory(rank, lives, zero, counters);
  for (int l = 0; l < kLaneCount; ++l) {
    const auto lane = static_cast<Lane>(l);
    if (lane == Lane::kCompute || is_host(lane)) continue;
    TraceCounter rate = rate_of(rank, lane, zero);
    if (!rate.points.empty()) counters.push_back(std::move(rate));
  }
  return counters;
}

}  // namespace zplan
