// A Timeline of a Job that nobody simulated: on each lane one operation after the other, each of a
// duration that is no whole number of nanoseconds.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "planner/program/instances/cursor.h"
#include "planner/program/timeline/timeline.h"

namespace zplan {

inline Timeline sample_timeline_of(const Job& job, std::int64_t steps,
                                   SimTime took = SimTime{1'500'777}) {
  Timeline timeline{.source = "sim", .fingerprint = "00ff", .ranks = {}};
  for (const RankClass& c : job.classes) {
    const ProgramIndex index(c.program);
    RankTimeline rank{.stage = c.stage, .rank = 3, .spans = {}};
    std::array<SimTime, kLaneCount> free{};
    for (Cursor cursor(index, std::nullopt); cursor->step() < steps; cursor.advance()) {
      const Node& node = c.program.nodes[cursor->node];
      SimTime& now = free[static_cast<std::size_t>(node.lane)];
      const SimTime start = now + SimTime{333};
      const SimTime end = node.kind == OpKind::kMark ? start : start + took;
      rank.spans.push_back({op_id(c.program, node, cursor->env),
                            static_cast<std::int32_t>(cursor->step()), node.lane, now, start, end});
      now = end;
    }
    sort_spans(rank);
    timeline.ranks.push_back(rank);
  }
  return timeline;
}

// The sample Job with so many micro-batches.
inline Job with_micro_steps(Job job, std::int32_t count) {
  for (RankClass& c : job.classes)
    for (Block& block : c.program.blocks)
      if (block.var == Var::kMicro) block.count = count;
  job.micro_steps = count;
  return job;
}

}  // namespace zplan
