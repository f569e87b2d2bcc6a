#include "planner/trace/rank_trace.h"

#include <algorithm>
#include <limits>
#include <tuple>

namespace zplan {
namespace {

std::int32_t last_step(const RankTimeline& rank) {
  std::int32_t last = 0;
  for (const Span& span : rank.spans) last = std::max(last, span.step);
  return last;
}

}  // namespace

RankSpans::RankSpans(const Program& program, const RankTimeline& rank, TraceScope scope)
    : index_(program), rank_(&rank), last_(last_step(rank)), folded_(rank.folded) {
  const bool all = scope == TraceScope::kEverything;
  first_ = all ? 0 : last_;
  for (int l = 0; l < kLaneCount; ++l)
    lanes_[static_cast<std::size_t>(l)] =
        match_lane(index_, rank, static_cast<Lane>(l), !rank.folded.empty());
  if (!all && rank.folded.empty()) fold_lanes();
  std::stable_sort(folded_.begin(), folded_.end(), [](const FoldedSpan& a, const FoldedSpan& b) {
    return std::tie(a.start, a.lane) < std::tie(b.start, b.lane);
  });
  std::erase_if(folded_, [&](const FoldedSpan& span) { return !shows(span.step); });
}

// Takes the iterations that are not shown out of lanes that have them.
void RankSpans::fold_lanes() {
  SpanRecorder recorder(program(), true);
  const TimelineFold fold(program());
  for (std::vector<LaneSpan>& lane : lanes_) {
    for (const LaneSpan& s : lane) recorder.add(s.at, *s.span);
    std::erase_if(lane, [&](const LaneSpan& s) { return fold.hidden_by(s.at).has_value(); });
  }
  folded_ = recorder.folded();
}

const LaneSpan* RankSpans::find(Lane which, std::int64_t lane_sequence) const {
  const std::vector<LaneSpan>& spans = lane(which);
  const auto found = std::lower_bound(
      spans.begin(), spans.end(), lane_sequence,
      [](const LaneSpan& s, std::int64_t number) { return s.at.lane_sequence < number; });
  const bool is_there = found != spans.end() && found->at.lane_sequence == lane_sequence;
  return is_there ? &*found : nullptr;
}

SimTime first_start(const std::vector<RankSpans>& ranks) {
  SimTime first{std::numeric_limits<std::int64_t>::max()};
  for (const RankSpans& rank : ranks)
    for (const Span& span : rank.timeline().spans)
      if (rank.shows(span.step)) first = std::min(first, span.start);
  return first;
}

}  // namespace zplan
