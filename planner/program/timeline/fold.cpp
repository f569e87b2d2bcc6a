#include "planner/program/timeline/fold.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

#include "planner/core/error.h"

namespace zplan {
namespace {

[[noreturn]] void refuse(const RankTimeline& rank, Lane lane, const std::string& expected) {
  throw_bad_input(
      fmt::format("timeline of rank {}, lane {}: expected {}", rank.rank, name(lane), expected));
}

// In order of their starts; operations without a duration may start together.
std::vector<const Span*> spans_of(const RankTimeline& rank, Lane lane) {
  std::vector<const Span*> spans;
  for (const Span& span : rank.spans)
    if (span.lane == lane) spans.push_back(&span);
  std::stable_sort(spans.begin(), spans.end(), [](const Span* a, const Span* b) {
    return std::tie(a->step, a->start) < std::tie(b->step, b->start);
  });
  return spans;
}

// Brings the span of the operation to place i, from among those that start with it.
bool bring(std::vector<const Span*>& spans, std::size_t i, OpId op) {
  for (std::size_t j = i; j < spans.size() && spans[j]->start == spans[i]->start; ++j) {
    if (spans[j]->op != op) continue;
    std::swap(spans[i], spans[j]);
    return true;
  }
  return false;
}

}  // namespace

TimelineFold::TimelineFold(const Program& program)
    : program_(&program), loops_(program.blocks.size()) {
  for (std::size_t b = 0; b < program.blocks.size(); ++b) {
    const Block& block = program.blocks[b];
    if (b != 0) loops_[b] = loops_[block.parent];
    if (block.var != Var::kMicro || block.count <= kFirstShown + kLastShown + 1) continue;
    loops_[b].push_back({static_cast<BlockIndex>(b), static_cast<std::size_t>(block.depth),
                         block.count - kLastShown});
  }
}

std::optional<BlockIndex> TimelineFold::hidden_by(const Instance& instance) const {
  for (const Loop& loop : loops_[program_->nodes[instance.node].block]) {
    const std::int64_t i = instance.iterations[loop.depth];
    if (kFirstShown <= i && i < loop.end) return loop.block;
  }
  return std::nullopt;
}

SpanRecorder::SpanRecorder(const Program& program, bool folds) : program_(&program) {
  if (folds) fold_.emplace(program);
  open_.fill(kNone);
}

void SpanRecorder::add(const Instance& instance, const Span& span) {
  std::size_t& open = open_[static_cast<std::size_t>(span.lane)];
  const auto loop = fold_ ? fold_->hidden_by(instance) : std::nullopt;
  if (!loop) {
    open = kNone;
    spans_.push_back(span);
    return;
  }
  if (open == kNone || folded_[open].loop != *loop || folded_[open].step != span.step) {
    open = folded_.size();
    folded_.push_back({.lane = span.lane,
                       .step = span.step,
                       .loop = *loop,
                       .first = kFirstShown,
                       .last = program_->blocks[*loop].count - kLastShown - 1,
                       .start = span.start});
  }
  FoldedSpan& all = folded_[open];
  ++all.ops;
  all.busy += span.end - span.start;
  all.end = span.end;
}

std::vector<LaneSpan> match_lane(const ProgramIndex& index, const RankTimeline& rank, Lane lane,
                                 bool folded) {
  std::vector<LaneSpan> matched;
  std::vector<const Span*> spans = spans_of(rank, lane);
  if (spans.empty()) return matched;
  const Program& program = index.program();
  const TimelineFold fold(program);
  Cursor cursor(index, lane);
  if (cursor.empty()) refuse(rank, lane, "no operations");
  for (std::size_t i = 0; i < spans.size(); cursor.advance()) {
    if (folded && fold.hidden_by(*cursor)) continue;
    const OpId op = op_id(program, program.nodes[cursor->node], cursor->env);
    if (spans[i]->step != cursor->step() || !bring(spans, i, op))
      refuse(rank, lane, fmt::format("{} in step {}", op_name(op), cursor->step()));
    matched.push_back({*cursor, spans[i++]});
  }
  return matched;
}

Timeline fold(const Job& job, const Timeline& timeline) {
  Timeline out{timeline.source, timeline.fingerprint, {}};
  for (const RankTimeline& rank : timeline.ranks) {
    const Program& program = job.classes[static_cast<std::size_t>(rank.stage)].program;
    const ProgramIndex index(program);
    SpanRecorder recorder(program, true);
    for (int lane = 0; lane < kLaneCount; ++lane)
      for (const LaneSpan& s : match_lane(index, rank, static_cast<Lane>(lane), false))
        recorder.add(s.at, *s.span);
    out.ranks.push_back({rank.stage, rank.rank, recorder.spans(), recorder.folded()});
    sort_spans(out.ranks.back());
  }
  return out;
}

}  // namespace zplan
