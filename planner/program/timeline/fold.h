// Which operations of a step a folded timeline has one by one: of a loop over micro-batches the
// first two iterations and the last one, the rest as one span per lane. What such a span covers is
// said with it: the iterations, how many operations they had on the lane and how long these took.
//
// [derived] Lanes run in program order, so the iterations left out follow each other on every lane
// and no operation of another iteration runs between them. An operation that is left out by several
// loops counts for the outermost one.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "planner/program/instances/cursor.h"
#include "planner/program/timeline/timeline.h"

namespace zplan {

inline constexpr std::int64_t kFirstShown = 2, kLastShown = 1;

class TimelineFold {
 public:
  explicit TimelineFold(const Program& program);

  // The loop that leaves the instance out; none: it is shown.
  std::optional<BlockIndex> hidden_by(const Instance& instance) const;

 private:
  struct Loop {
    BlockIndex block;
    std::size_t depth;
    std::int64_t end;  // first iteration that is shown again
  };
  const Program* program_;
  std::vector<std::vector<Loop>> loops_;  // by block: those around it that leave iterations out
};

// Collects the spans of one rank as they end, folded or not.
class SpanRecorder {
 public:
  SpanRecorder(const Program& program, bool folds);

  void add(const Instance& instance, const Span& span);
  const std::vector<Span>& spans() const { return spans_; }
  const std::vector<FoldedSpan>& folded() const { return folded_; }

 private:
  static constexpr std::size_t kNone = static_cast<std::size_t>(-1);
  const Program* program_;
  std::optional<TimelineFold> fold_;
  std::vector<Span> spans_;
  std::vector<FoldedSpan> folded_;
  std::array<std::size_t, kLaneCount> open_;  // of folded_, which the next operation may join
};

// The spans of one lane of one rank beside the instances of the program that they are of.
struct LaneSpan {
  Instance at;
  const Span* span = nullptr;
};
// In lane order, over all whole steps. Without what a folded timeline leaves out where `folded`.
// Throws Error(kBadInput) when the spans are of another program.
std::vector<LaneSpan> match_lane(const ProgramIndex& index, const RankTimeline& rank, Lane lane,
                                 bool folded);

// As the simulator records it when asked for a folded timeline.
Timeline fold(const Job& job, const Timeline& timeline);

}  // namespace zplan
