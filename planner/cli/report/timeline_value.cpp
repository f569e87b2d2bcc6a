// The timeline of a report: of a few stages every lane, with slices that are too narrow to be seen
// joined to the one before them, and the memory of each tier.
#include <algorithm>
#include <map>
#include <set>

#include "planner/cli/report/report.h"
#include "planner/trace/trace.h"

namespace zplan {
namespace {

// [assumed] a page stays below a megabyte with so many, and a screen shows no more.
constexpr std::size_t kMostSlices = 9000;
constexpr std::size_t kMostPoints = 700;
constexpr int kMostStages = 4;

// The first, the last, the busiest and the one in the middle.
std::set<std::int32_t> shown_stages(const Trace& trace, int busiest) {
  const auto stages = static_cast<std::int32_t>(trace.ranks.size());
  std::set<std::int32_t> shown = {0, stages - 1, busiest, stages / 2};
  if (stages <= kMostStages)
    for (std::int32_t s = 0; s < stages; ++s) shown.insert(s);
  return shown;
}

struct Joined {
  std::int64_t start_ns, end_ns;
  Role role;
  std::int64_t operations = 1;
  std::int64_t busy_ns = 0;
  WaitFor wait = WaitFor::kNothing;
  std::int64_t waited_ns = 0;
};

// Slices of one lane; those shorter than `unseen`, with a gap below it, become one with the slice
// before them, which gives the role.
std::vector<Joined> joined_slices(const RankTrace& rank, Lane lane, std::int64_t unseen) {
  std::vector<Joined> all;
  for (const TraceSlice& s : rank.slices) {
    if (s.lane != lane || s.start_ns == s.end_ns) continue;
    const Role role = role_of(s.op);
    const std::int64_t waited = s.wait.waited.value / 1000;
    const bool narrow = !all.empty() && s.start_ns - all.back().end_ns < unseen &&
                        s.end_ns - s.start_ns < unseen &&
                        all.back().end_ns - all.back().start_ns < 8 * unseen;
    if (narrow) {
      Joined& last = all.back();
      last.end_ns = s.end_ns;
      last.busy_ns += s.end_ns - s.start_ns;
      ++last.operations;
      if (waited > last.waited_ns) last.wait = s.wait.what, last.waited_ns = waited;
    } else {
      all.push_back({s.start_ns, s.end_ns, role, 1, s.end_ns - s.start_ns, s.wait.what, waited});
    }
  }
  return all;
}

std::size_t count_joined(const Trace& trace, const std::set<std::int32_t>& stages,
                         std::int64_t unseen) {
  std::size_t count = 0;
  for (const std::int32_t s : stages)
    for (int lane = 0; lane < kLaneCount; ++lane)
      count +=
          joined_slices(trace.ranks[static_cast<std::size_t>(s)], static_cast<Lane>(lane), unseen)
              .size();
  return count;
}

std::int64_t end_of(const Trace& trace) {
  std::int64_t end = 0;
  for (const RankTrace& rank : trace.ranks)
    for (const TraceSlice& s : rank.slices) end = std::max(end, s.end_ns);
  return end;
}

Value numbers(const std::vector<std::int64_t>& list) {
  Value out = empty_array();
  for (const std::int64_t n : list) out.append(n);
  return out;
}

class Names {
 public:
  std::int64_t of(Role role) {
    const auto [place, is_new] = places_.emplace(role, places_.size());
    if (is_new) names_.push_back(name(role));
    return static_cast<std::int64_t>(place->second);
  }
  const std::vector<std::string>& all() const { return names_; }

 private:
  std::map<Role, std::size_t> places_;
  std::vector<std::string> names_;
};

Value lanes_value(const RankTrace& rank, std::int64_t unseen, Names& names) {
  Value lanes = empty_array();
  for (int l = 0; l < kLaneCount; ++l) {
    const auto lane = static_cast<Lane>(l);
    Value slices = empty_array(), folds = empty_array();
    const std::vector<Joined> all = joined_slices(rank, lane, unseen);
    for (const Joined& s : all)
      slices.append(numbers({s.start_ns, s.end_ns - s.start_ns, names.of(s.role), s.operations,
                             s.busy_ns, static_cast<std::int64_t>(s.wait), s.waited_ns}));
    bool has_fold = false;
    for (const TraceFold& f : rank.folds) {
      if (f.span.lane != lane) continue;
      has_fold = true;
      folds.append(numbers({f.start_ns, f.end_ns - f.start_ns, f.span.first, f.span.last,
                            f.span.ops, f.span.busy.value / 1000}));
    }
    if (all.empty() && !has_fold) continue;
    lanes.append(Sheet{{"lane", name(lane)}, {"slices", slices}, {"folds", folds}});
  }
  return lanes;
}

// Of many points the highest of each stretch: a peak is never left out.
std::vector<TraceCounter::Point> thinned(const std::vector<TraceCounter::Point>& points) {
  if (points.size() <= kMostPoints) return points;
  std::vector<TraceCounter::Point> out;
  const std::size_t stretch = (points.size() + kMostPoints - 1) / kMostPoints;
  for (std::size_t i = 0; i < points.size(); i += stretch) {
    TraceCounter::Point most = points[i];
    for (std::size_t j = i; j < std::min(points.size(), i + stretch); ++j)
      most.value = std::max(most.value, points[j].value);
    out.push_back(most);
  }
  return out;
}

Value memory_value(const RankTrace& rank) {
  Value tiers = empty_array();
  for (const TraceCounter& counter : rank.counters) {
    if (!counter.name.ends_with(" memory")) continue;
    Value points = empty_array();
    for (const TraceCounter::Point& p : thinned(counter.points)) {
      Value point = empty_array();
      point.append(p.ns);
      point.append(number("{:.5g}", p.value));
      points.append(point);
    }
    tiers.append(
        Sheet{{"tier", counter.name.substr(0, counter.name.find(' '))}, {"points_gib", points}});
  }
  return tiers;
}

}  // namespace

Value timeline_value(const Report& report) {
  const Simulation& simulation = report.plans.front().simulation;
  const Job& job = simulation.planned.job;
  const Trace trace = make_trace(job, lifetimes(job), report.timeline, TraceScope::kOneStep);
  const std::set<std::int32_t> stages = shown_stages(trace, simulation.time->split.stage);
  const std::int64_t end = end_of(trace);
  constexpr std::int64_t kFinest = 20000, kCoarser = 2;
  std::int64_t unseen = end / kFinest;
  while (count_joined(trace, stages, unseen) > kMostSlices) unseen = kCoarser * unseen + 1;
  Names names;
  Value ranks = empty_array();
  for (const std::int32_t stage : stages) {
    const RankTrace& rank = trace.ranks[static_cast<std::size_t>(stage)];
    ranks.append(Sheet{{"stage", stage},
                       {"rank", rank.rank},
                       {"lanes", lanes_value(rank, unseen, names)},
                       {"memory", memory_value(rank)}});
  }
  return Sheet{{"end_ns", end},
               {"joined_below_ns", unseen},
               {"stages", trace.ranks.size()},
               {"ranks", ranks},
               {"names", names.all()}};
}

}  // namespace zplan
