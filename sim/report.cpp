#include "sim/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <tuple>

#include "planner/cost/bounds.h"
#include "planner/cost/step_cycle.h"
#include "planner/cost/step_totals.h"

namespace zplan::sim {
namespace {

double share_of(Seconds part, Seconds period) {
  return period.value > 0 ? part.value / period.value : 0;
}

// The last step in the steady state, else half of the steps.
std::size_t period_steps(const std::vector<StepMark>& marks) {
  return is_steady(marks) ? 1 : std::max<std::size_t>(1, (marks.size() - 1) / 2);
}

// Mean distance of the last step ends.
Seconds mean_period(const std::vector<StepMark>& marks) {
  const std::size_t last = marks.size() - 1, span = period_steps(marks);
  if (last == 0) return to_seconds(marks[0].end);
  return to_seconds(marks[last].end - marks[last - span].end) / static_cast<double>(span);
}

Seconds spread_of(const std::vector<StepMark>& marks) {
  const std::size_t last = marks.size() - 1, span = period_steps(marks);
  const SimTime before = last == 0 ? SimTime{0} : marks[last - span].spread;
  return to_seconds(marks[last].spread - before) / static_cast<double>(span);
}

const LaneTimes& last_times(const Engine& engine, const LaneState& lane) {
  return lane.times[engine.marks().size() - 1];
}

std::vector<LaneReport> lane_reports(const Engine& engine, Seconds period) {
  std::vector<LaneReport> reports;
  const StepMark& last = engine.marks().back();
  for (std::size_t stage = 0; stage < engine.classes().size(); ++stage) {
    for (std::size_t l = 0; l < kLaneCount; ++l) {
      const LaneState& lane = engine.classes()[stage].lanes[l];
      if (lane.per_step == 0) continue;
      const LaneTimes& times = last_times(engine, lane);
      SimTime exposed = last.clocks[stage].exposed(l);
      if (engine.marks().size() > 1) {
        exposed -= engine.marks()[engine.marks().size() - 2].clocks[stage].exposed(l);
      }
      reports.push_back({.stage = static_cast<int>(stage),
                         .lane = static_cast<Lane>(l),
                         .busy_share = share_of(to_seconds(times.busy), period),
                         .busy = to_seconds(times.busy),
                         .exposed = to_seconds(exposed),
                         .latency = to_seconds(times.latency),
                         .peer_wait = to_seconds(times.peer_wait),
                         .reuse_wait = to_seconds(times.reuse_wait),
                         .launch_wait = to_seconds(times.launch_wait)});
    }
  }
  return reports;
}

std::vector<LinkReport> link_reports(const Engine& engine, const StepTotals& totals,
                                     Seconds period) {
  std::vector<LinkReport> reports;
  const std::vector<StepMark>& marks = engine.marks();
  for (std::size_t i = 0; i < totals.links.size(); ++i) {
    if (totals.links[i].value <= 0) continue;
    SimTime busy = marks.back().links[i].busy;
    if (marks.size() > 1) busy -= marks[marks.size() - 2].links[i].busy;
    const CostLink& link = engine.model().links()[i];
    reports.push_back({link.name, link.kind, share_of(totals.links[i], period),
                       share_of(to_seconds(busy), period)});
  }
  return reports;
}

int busiest_stage(const std::vector<LaneReport>& lanes) {
  const LaneReport* busiest = nullptr;
  for (const LaneReport& lane : lanes) {
    if (lane.lane != Lane::kCompute) continue;
    if (busiest == nullptr || lane.busy > busiest->busy) busiest = &lane;
  }
  return busiest == nullptr ? 0 : busiest->stage;
}

void split_by_op(const StageClock& end, const StageClock& begin, std::size_t nodes,
                 TimeSplit& split) {
  for (NodeIndex node = 0; node < nodes; ++node) {
    for (int by = 0; by < kHeldByCount; ++by) {
      const auto held = static_cast<HeldBy>(by);
      SimTime time = end.held(node, held);
      if (begin.keeps_nodes()) time -= begin.held(node, held);
      if (time.value > 0) split.ops.push_back({node, held, time});
    }
  }
}

// Over the steps that the period is the mean of; what its floor adds counts as waiting.
TimeSplit split_of(const Engine& engine, const SimResult& result) {
  TimeSplit split{busiest_stage(result.lanes), {}};
  const std::vector<StepMark>& marks = engine.marks();
  const std::size_t last = marks.size() - 1, span = period_steps(marks);
  const auto stage = static_cast<std::size_t>(split.stage);
  if (engine.classes().empty()) return split;
  Seconds sum{};
  for (std::size_t p = 0; p < kTimePartCount; ++p) {
    SimTime part = marks[last].clocks[stage].part(p);
    if (last > 0) part -= marks[last - span].clocks[stage].part(p);
    split.parts[p] = to_seconds(part) / static_cast<double>(span);
    sum += split.parts[p];
  }
  const StageClock start = last > 0 ? marks[last - span].clocks[stage] : StageClock();
  const StageClock& end = marks[last].clocks[stage];
  split.steps = static_cast<int>(span);
  split.time = end.now() - start.now();
  if (end.keeps_nodes())
    split_by_op(end, start, engine.classes()[stage].program().nodes.size(), split);
  split.parts[static_cast<std::size_t>(TimePart::kWait)] +=
      std::max(Seconds{}, result.period - sum);
  return split;
}

std::vector<Limit> limits_of(const StepTotals& totals, const SimResult& result) {
  std::vector<Limit> limits;
  const bool stages = totals.classes.size() > 1;
  const auto prefix = [&](int stage) { return stages ? fmt::format("stage {} ", stage) : ""; };
  for (const LaneReport& lane : result.lanes) {
    if (lane.lane == Lane::kCompute || lane.lane == Lane::kCpu) {
      limits.push_back({fmt::format("{}{}", prefix(lane.stage), name(lane.lane)), lane.busy_share});
    }
    if (lane.latency.value > 0) {
      limits.push_back({fmt::format("{}latency of {}", prefix(lane.stage), name(lane.lane)),
                        share_of(lane.latency, result.period)});
    }
  }
  for (const LinkReport& link : result.links) {
    limits.push_back({fmt::format("{} ({})", link.kind, link.name), link.utilisation});
  }
  for (std::size_t stage = 0; stage < totals.classes.size(); ++stage) {
    limits.push_back({fmt::format("{}launch", prefix(static_cast<int>(stage))),
                      share_of(to_seconds(totals.classes[stage].launch), result.period)});
  }
  if (stages) {
    const Seconds bubble = result.split.parts[static_cast<std::size_t>(TimePart::kWait)];
    limits.push_back({"pipeline bubble", share_of(bubble, result.period)});
  }
  std::stable_sort(limits.begin(), limits.end(),
                   [](const Limit& a, const Limit& b) { return a.share > b.share; });
  return limits;
}

// The longest path through a step of the first stage and of the one that computes longest.
// [derived] Where another limit is hardly shorter, steps go at its pace until the path has caught
// up.
Seconds path_of(const Engine& engine, const StepTotals& totals) {
  const CostModel& model = engine.model();
  SimTime longest{};
  for (const std::size_t stage : walked_stages(totals)) {
    const Program& program = model.job().classes[stage].program;
    longest = std::max(longest, StepCycle(program, model.costs(static_cast<int>(stage))).period());
  }
  return to_seconds(longest);
}

// No steady state is shorter than what one lane needs for its ops as they ran, nor than the bounds.
Seconds floor_of(const Engine& engine, const StepTotals& totals) {
  Seconds floor = std::max(time_bound(engine.model(), totals).seconds, path_of(engine, totals));
  for (const ClassState& state : engine.classes()) {
    for (const LaneState& lane : state.lanes) {
      if (lane.per_step == 0) continue;
      floor = std::max(floor, to_seconds(last_times(engine, lane).busy));
    }
  }
  return floor;
}

std::vector<double> reliances_of(const std::vector<StepMark>& marks, Seconds period) {
  const std::size_t last = marks.size() - 1, span = period_steps(marks);
  std::vector<double> result = marks[last].path;
  for (std::size_t k = 0; k < result.size(); ++k) {
    if (last > 0) result[k] -= marks[last - span].path[k];
    result[k] /= static_cast<double>(span) * period.value;
  }
  result[constant_of(&StackRates::overall)] = 1;
  return result;
}

Timeline timeline_of(const Engine& engine, const SimOptions& options) {
  Timeline timeline{.source = "sim", .fingerprint = options.fingerprint, .ranks = {}};
  const auto steps = static_cast<std::int32_t>(engine.marks().size());
  for (std::size_t stage = 0; stage < engine.classes().size(); ++stage) {
    const ClassPlace& place = engine.model().place(static_cast<int>(stage));
    const SpanRecorder& recorder = engine.classes()[stage].recorder;
    RankTimeline rank{.stage = static_cast<std::int32_t>(stage),
                      .rank = place.rank,
                      .spans = recorder.spans(),
                      .folded = recorder.folded()};
    const auto is_partial = [&](const auto& span) { return span.step >= steps; };
    std::erase_if(rank.spans, is_partial);
    std::erase_if(rank.folded, is_partial);
    sort_spans(rank);
    timeline.ranks.push_back(std::move(rank));
  }
  return timeline;
}

constexpr std::array<std::string_view, kTimePartCount> kPartNames{
    "compute",
    "exposed communication within layers",
    "exposed gather and reduce",
    "exposed pipeline transfers",
    "exposed copies",
    "exposed CPU kernels",
    "exposed I/O reads",
    "exposed I/O writes",
    "waits",
    "launch"};

}  // namespace

std::string_view name(TimePart part) { return kPartNames[static_cast<std::size_t>(part)]; }

bool is_steady(const std::vector<StepMark>& marks, double tolerance) {
  if (marks.size() < 3) return false;
  const std::size_t last = marks.size() - 1;
  const double period = to_seconds(marks[last].end - marks[last - 1].end).value;
  const double before = to_seconds(marks[last - 1].end - marks[last - 2].end).value;
  return std::abs(period - before) <= tolerance * period;
}

SimResult make_result(const Engine& engine, const SimOptions& options) {
  const StepTotals totals = step_totals(engine.model());
  SimResult result;
  result.first_step = to_seconds(engine.marks().front().end);
  result.period = std::max(mean_period(engine.marks()), floor_of(engine, totals));
  result.spread = spread_of(engine.marks());
  result.steps = static_cast<int>(engine.marks().size());
  result.steady = is_steady(engine.marks());
  result.ops = engine.ops();
  result.skipped_ops = engine.skipped_ops();
  result.lanes = lane_reports(engine, result.period);
  result.links = link_reports(engine, totals, result.period);
  result.split = split_of(engine, result);
  result.limits = limits_of(totals, result);
  if (!result.limits.empty()) result.limited_by = result.limits.front().resource;
  if (options.find_reliances) result.reliances = reliances_of(engine.marks(), result.period);
  if (options.record_timeline) result.timeline = timeline_of(engine, options);
  return result;
}

}  // namespace zplan::sim
