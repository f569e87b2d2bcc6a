#include "planner/trace/trace.h"

#include <algorithm>
#include <set>

#include "planner/trace/rank_trace.h"

namespace zplan {
namespace {

// What an edge between two lanes hands over; empty: nothing that moves.
std::string_view flow_name(const Node& from, const Node& to) {
  const auto is_move = [](Lane lane) {
    return lane == Lane::kH2d || lane == Lane::kD2h || lane == Lane::kIoRead ||
           lane == Lane::kIoWrite;
  };
  if (from.lane == Lane::kIoWrite && to.lane == Lane::kIoRead) return "write to read";
  if (from.lane == Lane::kD2h && to.lane == Lane::kH2d) return "download to upload";
  if (from.lane == Lane::kCommGather) return "gather to use";
  if (to.lane == Lane::kCommReduce) return "gradient to reduction";
  if (from.lane == Lane::kCommReduce) return "reduction to use";
  if (is_transfer(from.lane)) return "receive to use";
  if (is_transfer(to.lane)) return "result to send";
  if (is_move(from.lane) || is_move(to.lane)) return "move";
  return {};
}

bool has_width(const LaneSpan& s, SimTime zero) {
  return nanoseconds(s.span->start, zero) < nanoseconds(s.span->end, zero);
}

void add_flows(const RankSpans& rank, const LaneSpan& to, SimTime zero, RankTrace& out) {
  const Program& program = rank.program();
  const Node& node = program.nodes[to.at.node];
  if (!has_width(to, zero)) return;
  for (const Edge& edge : program.after(node)) {
    if (edge.reuse) continue;
    const auto needed = rank.index().resolve(edge, to.at.iterations);
    if (!needed || needed->lane == node.lane || needed->completed <= 0) continue;
    const LaneSpan* from = rank.find(needed->lane, needed->completed - 1);
    if (from == nullptr || !rank.shows(from->span->step) || !has_width(*from, zero)) continue;
    const std::string_view what = flow_name(program.nodes[from->at.node], node);
    if (what.empty()) continue;
    out.flows.push_back({what, needed->lane, node.lane, nanoseconds(from->span->start, zero),
                         nanoseconds(to.span->start, zero)});
  }
}

void add_slices(const RankSpans& rank, Lane lane, SimTime zero, RankTrace& out) {
  std::vector<FoldedSpan> folds;
  for (const FoldedSpan& fold : rank.folded())
    if (fold.lane == lane) folds.push_back(fold);
  auto fold = folds.begin();
  SimTime lane_free{0};
  for (const LaneSpan& s : rank.lane(lane)) {
    for (; fold != folds.end() && fold->start <= s.span->start; ++fold)
      lane_free = std::max(lane_free, fold->end);
    if (rank.shows(s.span->step)) {
      out.slices.push_back({s.at.node, s.span->op, s.span->step, lane,
                            nanoseconds(s.span->start, zero), nanoseconds(s.span->end, zero),
                            wait_reason(rank, s, lane_free)});
      add_flows(rank, s, zero, out);
    }
    lane_free = s.span->end;
  }
}

RankTrace rank_trace(const RankSpans& rank, const std::vector<Lifetime>& lives, SimTime zero) {
  RankTrace out{.rank = rank.timeline().rank,
                .stage = rank.timeline().stage,
                .slices = {},
                .folds = {},
                .flows = {},
                .counters = counters_of(rank, lives, zero)};
  for (int lane = 0; lane < kLaneCount; ++lane)
    add_slices(rank, static_cast<Lane>(lane), zero, out);
  for (const FoldedSpan& fold : rank.folded())
    out.folds.push_back({fold, nanoseconds(fold.start, zero), nanoseconds(fold.end, zero)});
  return out;
}

// Of each stage the first rank, or all.
std::vector<const RankTimeline*> ranks_of(const Timeline& timeline, TraceScope scope) {
  std::vector<const RankTimeline*> ranks;
  std::set<std::int32_t> stages;
  for (const RankTimeline& rank : timeline.ranks)
    if (stages.insert(rank.stage).second || scope == TraceScope::kEverything)
      ranks.push_back(&rank);
  return ranks;
}

}  // namespace

Trace make_trace(const Job& job, const JobLifetimes& lives, const Timeline& timeline,
                 TraceScope scope, const TraceLinks& links) {
  Trace trace{timeline.source, timeline.fingerprint, {}, {}};
  std::vector<RankSpans> ranks;
  for (const RankTimeline* rank : ranks_of(timeline, scope))
    ranks.emplace_back(job.classes[static_cast<std::size_t>(rank->stage)].program, *rank, scope);
  const SimTime zero = first_start(ranks);
  for (const RankSpans& rank : ranks)
    trace.ranks.push_back(
        rank_trace(rank, lives[static_cast<std::size_t>(rank.timeline().stage)], zero));
  trace.links = link_rates(ranks, links, zero);
  return trace;
}

std::int64_t estimated_bytes(const Trace& trace) {
  // measured over traces of plans of all sizes
  constexpr std::int64_t kSlice = 300, kFold = 300, kFlow = 180, kPoint = 85;
  std::int64_t bytes = 0;
  for (const RankTrace& rank : trace.ranks) {
    bytes += static_cast<std::int64_t>(rank.slices.size()) * kSlice;
    bytes += static_cast<std::int64_t>(rank.folds.size()) * kFold;
    bytes += static_cast<std::int64_t>(rank.flows.size()) * kFlow;
    for (const TraceCounter& counter : rank.counters)
      bytes += static_cast<std::int64_t>(counter.points.size()) * kPoint;
  }
  for (const TraceCounter& link : trace.links)
    bytes += static_cast<std::int64_t>(link.points.size()) * kPoint;
  return bytes;
}

}  // namespace zplan
