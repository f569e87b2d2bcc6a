#include <algorithm>

#include "planner/trace/rank_trace.h"

namespace zplan {
namespace {

struct Last {
  const LaneSpan* span = nullptr;
  bool reuse = false;
  bool unseen = false;  // it waits for operations that are not shown, too
};

// Of the operations that the span had to wait for, the one that ended last.
Last last_needed(const RankSpans& rank, const LaneSpan& span) {
  Last last;
  const Node& node = rank.program().nodes[span.at.node];
  for (const Edge& edge : rank.program().after(node)) {
    const auto needed = rank.index().resolve(edge, span.at.iterations);
    if (!needed || needed->lane == node.lane || needed->completed <= 0) continue;
    const LaneSpan* before = rank.find(needed->lane, needed->completed - 1);
    if (before == nullptr) {
      last.unseen = true;
    } else if (last.span == nullptr || last.span->span->end < before->span->end) {
      last = {before, edge.reuse, last.unseen};
    }
  }
  return last;
}

}  // namespace

// What the operation could not foresee is what it waited for: the time from its last need to its
// being ready is its launch, unless a need is not shown.
WaitReason wait_reason(const RankSpans& rank, const LaneSpan& span, SimTime lane_free) {
  const SimTime ready = span.span->ready, start = span.span->start;
  const SimTime peers = start - std::max(ready, lane_free);
  const SimTime alone = ready - lane_free;
  constexpr SimTime kShown{1000};  // a trace has whole nanoseconds
  if (start - lane_free < kShown) return {};
  if (peers >= alone) return {WaitFor::kPeers, 0, peers};
  const Last last = last_needed(rank, span);
  const SimTime need = last.span == nullptr ? SimTime{0} : last.span->span->end - lane_free;
  const bool explains = 2 * need.value >= alone.value;
  if (explains)
    return {last.reuse ? WaitFor::kMemory : WaitFor::kOperation, last.span->span->op, alone};
  const bool launched = is_launched(span.span->lane) && !last.unseen;
  return {launched ? WaitFor::kLaunch : WaitFor::kUnseen, 0, alone};
}

}  // namespace zplan
