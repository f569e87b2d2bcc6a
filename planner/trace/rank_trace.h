// The spans of one rank beside the operations of its program that they are of, and which of them a
// trace shows.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "planner/program/instances/cursor.h"
#include "planner/program/timeline/fold.h"
#include "planner/trace/trace.h"

namespace zplan {

class RankSpans {
 public:
  // `rank` must outlive it.
  RankSpans(const Program& program, const RankTimeline& rank, TraceScope scope);

  const ProgramIndex& index() const { return index_; }
  const Program& program() const { return index_.program(); }
  const RankTimeline& timeline() const { return *rank_; }
  // All of a lane, shown or not, in lane order.
  const std::vector<LaneSpan>& lane(Lane lane) const {
    return lanes_[static_cast<std::size_t>(lane)];
  }
  const std::vector<FoldedSpan>& folded() const { return folded_; }
  bool shows(std::int32_t step) const { return first_ <= step && step <= last_; }
  // The span of an instance by its place within its lane.
  const LaneSpan* find(Lane lane, std::int64_t lane_sequence) const;

 private:
  void fold_lanes();

  ProgramIndex index_;
  const RankTimeline* rank_;
  std::int32_t first_ = 0, last_ = 0;  // steps
  std::array<std::vector<LaneSpan>, kLaneCount> lanes_;
  std::vector<FoldedSpan> folded_;
};

// Where a picture of the ranks begins.
SimTime first_start(const std::vector<RankSpans>& ranks);

WaitReason wait_reason(const RankSpans& rank, const LaneSpan& span, SimTime lane_free);
std::vector<TraceCounter> counters_of(const RankSpans& rank, const std::vector<Lifetime>& lives,
                                      SimTime zero);

std::vector<TraceCounter> link_rates(const std::vector<RankSpans>& ranks, const TraceLinks& links,
                                     SimTime zero);

// Instances of a node in one iteration of a loop around it.
std::int64_t runs_within(const Program& program, BlockIndex block, BlockIndex loop);
bool is_within(const Program& program, BlockIndex block, BlockIndex loop);

// Whole nanoseconds since `zero`, rounded down; never before it.
inline std::int64_t nanoseconds(SimTime time, SimTime zero) {
  constexpr std::int64_t kPicoseconds = 1000;
  return (time - zero).value < 0 ? 0 : (time - zero).value / kPicoseconds;
}

}  // namespace zplan
