#include "planner/program/timeline/timeline.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "planner/core/error.h"
#include "planner/program/instances/cursor.h"
#include "tests/support/sample_job.h"

namespace zplan {
namespace {

// Every operation of two steps of the sample, each lane busy without a pause; waits of 3 ps.
Timeline sample_timeline() {
  Timeline timeline{.source = "sim", .fingerprint = "00ff", .ranks = {}};
  for (const RankClass& c : sample_job().classes) {
    const ProgramIndex index(c.program);
    RankTimeline rank{.stage = c.stage, .rank = 3, .spans = {}};
    std::array<SimTime, kLaneCount> free{};
    for (Cursor cursor(index, std::nullopt); cursor->step() < 2; cursor.advance()) {
      const Node& node = c.program.nodes[cursor->node];
      SimTime& now = free[static_cast<std::size_t>(node.lane)];
      const SimTime start = now + SimTime{3};
      const SimTime end = start + SimTime{1'500'001};
      rank.spans.push_back({op_id(node.role, cursor->env),
                            static_cast<std::int32_t>(cursor->step()), node.lane, now, start, end});
      now = end;
    }
    std::sort(rank.spans.begin(), rank.spans.end(), [](const Span& a, const Span& b) {
      return std::tie(a.start, a.lane, a.op) < std::tie(b.start, b.lane, b.op);
    });
    timeline.ranks.push_back(rank);
  }
  return timeline;
}

TEST(Timeline, ReadsBackFromJson) {
  const Timeline timeline = sample_timeline();
  EXPECT_EQ(timeline_from_json(to_json(timeline), "t.json"), timeline);
  const Timeline empty{.source = "exec", .fingerprint = "a\"b", .ranks = {{}}};
  EXPECT_EQ(timeline_from_json(to_json(empty), "t.json"), empty);
}

TEST(Timeline, RefusesWrongJson) {
  const std::string text = to_json(sample_timeline());
  const auto refusal = [&](std::string_view from, std::string_view to) -> std::string {
    std::string wrong = text;
    wrong.replace(wrong.find(from), from.size(), to);
    try {
      timeline_from_json(wrong, "t.json");
    } catch (const Error& error) {
      return error.what();
    }
    return "accepted";
  };
  using testing::HasSubstr;
  EXPECT_THAT(refusal("timeline/1", "timeline/2"), HasSubstr("schema"));
  EXPECT_THAT(refusal("\"sim\"", "\"guess\""), HasSubstr("/source"));
  EXPECT_THAT(refusal("[m0,l0]", "[m0]"), HasSubstr("/ranks/0/spans/0/op"));
  EXPECT_THAT(refusal("\"lane\":\"compute\"", "\"lane\":\"stream\""),
              HasSubstr("a lane (compute,"));
  EXPECT_THAT(refusal("\"end_ps\":1500004", "\"end_ps\":2"), HasSubstr("/end_ps"));
  EXPECT_THAT(refusal("\"ready_ps\"", "\"ready\""), HasSubstr("ready"));
}

using Json = nlohmann::json;

TEST(ChromeTrace, NamesEveryProcessAndThread) {
  const Json trace = Json::parse(chrome_trace(sample_timeline()));
  std::map<std::pair<int, int>, std::string> threads;
  std::map<int, std::string> processes;
  for (const Json& e : trace.at("traceEvents")) {
    if (e.at("name") == "process_name") processes[e.at("pid")] = e.at("args").at("name");
    if (e.at("name") != "thread_name") continue;
    threads[{e.at("pid"), e.at("tid")}] = e.at("args").at("name");
  }
  EXPECT_EQ(processes[1], "rank 3, stage 0");
  EXPECT_EQ(processes[2], "rank 3, stage 1");
  for (const Json& e : trace.at("traceEvents")) {
    if (e.at("ph") != "X") continue;
    EXPECT_TRUE(threads.contains({e.at("pid"), e.at("tid")}));
  }
  const auto lane = static_cast<int>(Lane::kCommGather);
  EXPECT_EQ((threads[{1, lane + 1}]), "comm_gather");
  std::set<int> numbers;
  for (const auto& [thread, name] : threads) {
    EXPECT_GT(thread.second, 0) << name;
    EXPECT_TRUE(numbers.insert(thread.second).second) << "two threads are " << thread.second;
  }
}

TEST(ChromeTrace, ShowsEverySpanOnceAndNoneOverAnother) {
  const Timeline timeline = sample_timeline();
  const Json trace = Json::parse(chrome_trace(timeline));
  std::map<std::pair<int, int>, double> free;
  std::size_t spans = 0;
  for (const Json& e : trace.at("traceEvents")) {
    if (e.at("ph") != "X") continue;
    ++spans;
    const double start = e.at("ts"), duration = e.at("dur");
    double& end = free[{e.at("pid"), e.at("tid")}];
    EXPECT_GE(start, end) << e;
    EXPECT_GE(duration, 0) << e;
    end = start + duration - 1e-9;  // decimal microseconds are not exact in a double
  }
  EXPECT_EQ(spans, timeline.ranks[0].spans.size() + timeline.ranks[1].spans.size());
}

TEST(ChromeTrace, KeepsNanosecondsOfLongRuns) {
  constexpr SimTime kDay{86'400 * 1'000'000'000'000};
  Timeline timeline{.source = "sim", .fingerprint = "", .ranks = {{}}};
  timeline.ranks[0].spans.push_back({.ready = kDay, .start = kDay, .end = kDay + SimTime{1999}});
  const std::string trace = chrome_trace(timeline);
  EXPECT_THAT(trace, testing::HasSubstr("\"ts\":86400000000.000,\"dur\":0.001"));
}

// Spans that meet between two nanoseconds meet in the trace.
TEST(ChromeTrace, NeighboursMeetAtWholeNanoseconds) {
  Timeline timeline{.source = "sim", .fingerprint = "", .ranks = {{}}};
  SimTime start{0};
  for (std::int64_t length = 1; length < 4000; length += 371) {
    const SimTime end = start + SimTime{length};
    timeline.ranks[0].spans.push_back({.ready = start, .start = start, .end = end});
    start = end;
  }
  const Json trace = Json::parse(chrome_trace(timeline));
  std::int64_t free = 0;
  for (const Json& e : trace.at("traceEvents")) {
    if (e.at("ph") != "X") continue;
    const auto ns = [&](const char* key) { return std::llround(e.at(key).get<double>() * 1000); };
    EXPECT_EQ(ns("ts"), free);
    free = ns("ts") + ns("dur");
  }
  EXPECT_EQ(free, start.value / 1000);
}

TEST(ChromeTrace, IsValidWithoutRanks) {
  EXPECT_TRUE(Json::parse(chrome_trace(Timeline{})).at("traceEvents").empty());
}

}  // namespace
}  // namespace zplan
