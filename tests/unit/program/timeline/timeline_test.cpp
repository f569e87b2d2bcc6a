#include "planner/program/timeline/timeline.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>

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
  const Timeline empty{.source = "exec",
                       .fingerprint = "a\"b",
                       .ranks = {{}},
                       .kernels = {{"forward.qkv.compute", "tile \"3\""}}};
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

}  // namespace
}  // namespace zplan
