#include "planner/trace/trace.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <tuple>

#include "planner/core/error.h"
#include "planner/program/timeline/fold.h"
#include "tests/support/sample_job.h"
#include "tests/unit/trace/sample_timeline.h"

namespace zplan {
namespace {

using Json = nlohmann::json;

constexpr std::int32_t kManySteps = 9;

Trace trace_of(const Job& job, std::int64_t steps = 2, TraceScope scope = TraceScope::kOneStep) {
  return make_trace(job, lifetimes(job), sample_timeline_of(job, steps), scope);
}

std::string text_of(const Job& job, const Trace& trace) {
  std::string text;
  write(job, trace, [&](std::string_view piece) { text += piece; });
  return text;
}

Json events_of(const Job& job, const Trace& trace) {
  return Json::parse(text_of(job, trace)).at("traceEvents");
}

TEST(TimelineFold, HidesTheMiddleOfLongLoopsOnly) {
  const Job many = with_micro_steps(sample_job(), kManySteps);
  const Timeline folded = fold(many, sample_timeline_of(many, 2));
  for (const FoldedSpan& span : folded.ranks[0].folded) {
    EXPECT_EQ(span.first, kFirstShown);
    EXPECT_EQ(span.last, kManySteps - kLastShown - 1);
  }
  EXPECT_FALSE(folded.ranks[0].folded.empty());
  const Job few = sample_job();
  const Timeline whole = sample_timeline_of(few, 2);
  EXPECT_EQ(fold(few, whole), whole);
}

TEST(TimelineFold, CountsEveryOperationOnce) {
  const Job job = with_micro_steps(sample_job(), kManySteps);
  const Timeline whole = sample_timeline_of(job, 2), folded = fold(job, whole);
  for (std::size_t r = 0; r < whole.ranks.size(); ++r) {
    std::int64_t ops = static_cast<std::int64_t>(folded.ranks[r].spans.size());
    SimTime busy{0}, all{0};
    for (const FoldedSpan& span : folded.ranks[r].folded) {
      ops += span.ops;
      busy += span.busy;
      EXPECT_LE(span.busy, span.end - span.start);
    }
    for (const Span& span : folded.ranks[r].spans) busy += span.end - span.start;
    for (const Span& span : whole.ranks[r].spans) all += span.end - span.start;
    EXPECT_EQ(ops, static_cast<std::int64_t>(whole.ranks[r].spans.size()));
    EXPECT_EQ(busy, all);
  }
}

TEST(Trace, OfAFoldedTimelineIsThatOfTheWholeOne) {
  const Job job = with_micro_steps(sample_job(), kManySteps);
  const JobLifetimes lives = lifetimes(job);
  const Timeline whole = sample_timeline_of(job, 2);
  const auto text = [&](const Timeline& timeline) {
    return text_of(job, make_trace(job, lives, timeline, TraceScope::kOneStep));
  };
  EXPECT_EQ(text(whole), text(fold(job, whole)));
}

TEST(Trace, RefusesTheTimelineOfAnotherJob) {
  const Job job = sample_job();
  Timeline timeline = sample_timeline_of(job, 1);
  std::swap(timeline.ranks[0].spans.front().op, timeline.ranks[0].spans.back().op);
  try {
    make_trace(job, lifetimes(job), timeline, TraceScope::kOneStep);
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("timeline of rank 3, lane"));
  }
}

TEST(Trace, ShowsTheLastStepOrAllOfThem) {
  const Job job = sample_job();
  const auto steps = [](const Trace& trace) {
    std::set<std::int32_t> seen;
    for (const TraceSlice& s : trace.ranks[0].slices) seen.insert(s.step);
    return seen;
  };
  EXPECT_EQ(steps(trace_of(job)), (std::set<std::int32_t>{1}));
  EXPECT_EQ(steps(trace_of(job, 2, TraceScope::kEverything)), (std::set<std::int32_t>{0, 1}));
}

TEST(Trace, ShowsOneRankOfAStage) {
  const Job job = sample_job();
  Timeline timeline = sample_timeline_of(job, 1);
  timeline.ranks.push_back(timeline.ranks.front());
  const JobLifetimes lives = lifetimes(job);
  EXPECT_EQ(make_trace(job, lives, timeline, TraceScope::kOneStep).ranks.size(), 2U);
  EXPECT_EQ(make_trace(job, lives, timeline, TraceScope::kEverything).ranks.size(), 3U);
}

TEST(TraceText, NamesEveryProcessAndThread) {
  const Job job = sample_job();
  std::map<std::pair<int, int>, std::string> threads;
  std::map<int, std::string> processes;
  const Json events = events_of(job, trace_of(job));
  for (const Json& e : events) {
    if (e.at("name") == "process_name") processes[e.at("pid")] = e.at("args").at("name");
    if (e.at("name") == "thread_name")
      threads[{e.at("pid"), e.at("tid")}] = e.at("args").at("name");
  }
  EXPECT_EQ(processes[2], "stage 1, rank 3");
  for (const Json& e : events) {
    if (e.at("ph") != "X") continue;
    EXPECT_TRUE(threads.contains({e.at("pid"), e.at("tid")}));
  }
  EXPECT_EQ((threads[{1, 100 + static_cast<int>(Lane::kCommGather)}]), "comm_gather");
  EXPECT_EQ((threads[{2, 200 + static_cast<int>(Lane::kCommGather)}]), "comm_gather");
}

// In whole nanoseconds, as a viewer reads them.
std::int64_t nanoseconds_of(const Json& microseconds) {
  return std::llround(microseconds.get<double>() * 1000);
}

TEST(TraceText, NoSliceOverlapsTheNextOneOfItsTrack) {
  for (const TraceScope scope : {TraceScope::kOneStep, TraceScope::kEverything}) {
    const Job job = with_micro_steps(sample_job(), kManySteps);
    std::map<std::pair<int, int>, std::vector<std::pair<std::int64_t, std::int64_t>>> tracks;
    for (const Json& e : events_of(job, trace_of(job, 3, scope))) {
      if (e.at("ph") != "X") continue;
      const std::int64_t start = nanoseconds_of(e.at("ts"));
      tracks[{e.at("pid"), e.at("tid")}].push_back({start, start + nanoseconds_of(e.at("dur"))});
    }
    for (auto& [track, slices] : tracks) {
      std::sort(slices.begin(), slices.end());
      for (std::size_t i = 0; i + 1 < slices.size(); ++i)
        ASSERT_LE(slices[i].second, slices[i + 1].first) << track.first << ' ' << track.second;
    }
  }
}

TEST(TraceText, NamesHaveNoIndices) {
  const Job job = sample_job();
  bool seen = false;
  for (const Json& e : events_of(job, trace_of(job))) {
    if (e.at("ph") != "X") continue;
    EXPECT_THAT(e.at("name").get<std::string>(), testing::Not(testing::HasSubstr("[")));
    if (e.at("name") != "forward.fc1.compute") continue;
    seen = true;
    EXPECT_TRUE(e.at("args").contains("layer"));
    EXPECT_TRUE(e.at("args").contains("micro_batch"));
    EXPECT_EQ(e.at("args").at("flop"), 2 * 4 * 8 * 8);
    EXPECT_GT(e.at("args").at("bytes"), 0);
    EXPECT_GT(e.at("args").at("TFLOP/s"), 0);
  }
  EXPECT_TRUE(seen);
}

TEST(TraceText, EveryFlowHasBothEndsInASlice) {
  const Job job = sample_job();
  const Json events = events_of(job, trace_of(job));
  std::map<int, std::vector<std::string>> ends;
  const auto is_in_slice = [&](const Json& end) {
    return std::any_of(events.begin(), events.end(), [&](const Json& e) {
      return e.at("ph") == "X" && e.at("pid") == end.at("pid") && e.at("tid") == end.at("tid") &&
             e.at("ts") == end.at("ts") && e.at("dur") > 0;
    });
  };
  for (const Json& e : events) {
    if (e.at("ph") != "s" && e.at("ph") != "f") continue;
    ends[e.at("id")].push_back(e.at("ph"));
    EXPECT_TRUE(is_in_slice(e)) << e;
  }
  EXPECT_FALSE(ends.empty());
  for (const auto& [id, both] : ends) EXPECT_EQ(both, (std::vector<std::string>{"s", "f"})) << id;
}

TEST(Trace, FlowsLeadFromGatherToUse) {
  const Job job = sample_job();
  const Trace trace = trace_of(job);
  bool seen = false;
  for (const TraceFlow& flow : trace.ranks[0].flows) {
    if (flow.name != "gather to use") continue;
    seen = true;
    EXPECT_EQ(flow.from, Lane::kCommGather);
    EXPECT_EQ(flow.to, Lane::kCompute);
  }
  EXPECT_TRUE(seen);
}

TEST(Trace, CountersAreNeverNegativeAndEndAsTheyShould) {
  const Job job = with_micro_steps(sample_job(), kManySteps);
  const JobLifetimes lives = lifetimes(job);
  for (const RankTrace& rank : trace_of(job).ranks) {
    const RankClass& c = job.classes[static_cast<std::size_t>(rank.stage)];
    const auto peaks = live_peaks(c.program, lives[static_cast<std::size_t>(rank.stage)]);
    for (const TraceCounter& counter : rank.counters) {
      std::int64_t last = -1;
      double most = 0;
      for (const TraceCounter::Point& p : counter.points) {
        EXPECT_GE(p.value, 0) << counter.name;
        EXPECT_LT(last, p.ns) << counter.name;
        last = p.ns;
        most = std::max(most, p.value);
      }
      if (counter.name.ends_with("rate")) {
        EXPECT_EQ(counter.points.back().value, 0);
      }
      if (counter.name == "gpu memory") {
        EXPECT_EQ(most * (1 << 30), static_cast<double>(peaks[0].bytes.value));
      }
    }
  }
}

TEST(Trace, RatesOfLinksAddUpToTheirBytes) {
  const Job job = with_micro_steps(sample_job(), kManySteps);
  TraceLinks links{.names = {"unused", "wire"}, .loads = {}};
  double bytes = 0;
  for (const RankClass& c : job.classes) {
    auto& nodes = links.loads.emplace_back(c.program.nodes.size());
    for (std::size_t n = 0; n < nodes.size(); ++n)
      if (c.program.nodes[n].kind == OpKind::kCollective) nodes[n] = {{1, 1000}};
    const ProgramIndex index(c.program);
    for (Cursor at(index, std::nullopt); at->step() == 0; at.advance())
      if (!nodes[at->node].empty()) bytes += 1000;
  }
  const Trace trace =
      make_trace(job, lifetimes(job), sample_timeline_of(job, 2), TraceScope::kOneStep, links);
  ASSERT_EQ(trace.links.size(), 1U);
  const auto& points = trace.links[0].points;
  double seen = 0;
  for (std::size_t i = 0; i + 1 < points.size(); ++i) {
    EXPECT_GE(points[i].value, 0);
    seen += points[i].value * static_cast<double>(points[i + 1].ns - points[i].ns);
  }
  EXPECT_EQ(points.back().value, 0);
  EXPECT_NEAR(seen / bytes, 1, 1e-6);
}

TEST(Trace, SaysWhatAnOperationWaitedFor) {
  const Job job = sample_job();
  const JobLifetimes lives = lifetimes(job);
  Timeline timeline = sample_timeline_of(job, 1);
  // The last span of the compute lane becomes ready late: when the reduction ahead of it has ended.
  auto& spans = timeline.ranks[0].spans;
  Span* last = nullptr;
  SimTime reduced{0};
  for (Span& span : spans) {
    if (span.lane == Lane::kCompute) last = &span;
    if (span.lane == Lane::kCommReduce) reduced = span.end;
  }
  ASSERT_NE(last, nullptr);
  const SimTime late = std::max(reduced, last->end);
  for (Span& span : spans)
    if (span.lane == Lane::kCommReduce && span.end == reduced) span.end = late;
  last->ready = last->start = late;
  last->end = late + SimTime{5000};
  const Trace trace = make_trace(job, lives, timeline, TraceScope::kOneStep);
  const auto slice = std::find_if(
      trace.ranks[0].slices.begin(), trace.ranks[0].slices.end(),
      [&](const TraceSlice& s) { return s.op == last->op && s.lane == Lane::kCompute; });
  ASSERT_NE(slice, trace.ranks[0].slices.end());
  EXPECT_EQ(slice->wait.what, WaitFor::kOperation);
  EXPECT_THAT(op_name(slice->wait.op), testing::HasSubstr("backward.layer.reduce"));
}

TEST(TraceText, KeepsNanosecondsOfLongRuns) {
  const Job job = sample_job();
  constexpr SimTime kDay{86'400 * 1'000'000'000'000};
  Timeline timeline = sample_timeline_of(job, 1);
  for (RankTimeline& rank : timeline.ranks)
    for (Span& span : rank.spans)
      if (span.lane == Lane::kCpu && span.end.value > 0)
        span = {span.op,           span.step,         span.lane,
                span.ready + kDay, span.start + kDay, span.end + kDay};
  const std::string text =
      text_of(job, make_trace(job, lifetimes(job), timeline, TraceScope::kOneStep));
  EXPECT_THAT(text, testing::HasSubstr("\"ts\":86400000000.000,\"dur\":1.500"));
}

TEST(Trace, SizeIsEstimatedWithinAFactorOfTwo) {
  const Job job = with_micro_steps(sample_job(), kManySteps);
  const Trace trace = trace_of(job, 40, TraceScope::kEverything);
  const auto size = static_cast<double>(text_of(job, trace).size());
  EXPECT_GT(static_cast<double>(estimated_bytes(trace)), size / 2);
  EXPECT_LT(static_cast<double>(estimated_bytes(trace)), size * 2);
}

TEST(TraceText, IsValidWithoutRanks) { EXPECT_TRUE(events_of(sample_job(), Trace{}).empty()); }

}  // namespace
}  // namespace zplan
