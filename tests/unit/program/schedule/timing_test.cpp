#include "planner/program/schedule/timing.h"

#include <gtest/gtest.h>

#include "planner/program/schedule/one_forward_one_backward.h"
#include "tests/support/schedules.h"

namespace zplan {
namespace {

using testing_support::schedule_of;

TEST(ScheduleTime, WaitsForTheNeighbours) {
  const PipelineSchedule s = schedule_of(looped_chunks(2, 1), 1, {"F0.0 I0.0 W0.0", "F0.0 B0.0"});
  const ScheduleTime time = time_of(s, {{3, 5, 7}, {10, 20, 30}});
  EXPECT_EQ(time.ranks[1].start, 3);
  EXPECT_EQ(time.ranks[1].end, 63);
  EXPECT_EQ(time.ranks[0].end, 63 + 5 + 7);
  EXPECT_EQ(time.ranks[0].busy, 15);
  EXPECT_EQ(time.makespan(), 75);
  EXPECT_DOUBLE_EQ(time.idle(0), 0.8);
  EXPECT_DOUBLE_EQ(time.bubble(), 15.0 / 60);
}

TEST(ScheduleTime, WaitsForTheInputPartOfBackwardAlone) {
  const PipelineSchedule s = schedule_of(looped_chunks(2, 1), 1, {"F0.0 B0.0", "F0.0 I0.0 W0.0"});
  EXPECT_EQ(time_of(s, {{1, 1, 1}, {1, 1, 100}}).ranks[0].end, 5);
}

TEST(ScheduleTime, HasABubbleInPartsOfTheBusiestRank) {
  const PipelineSchedule s = schedule_of(looped_chunks(2, 1), 1, {"F0.0 B0.0", "F0.0 B0.0"});
  EXPECT_DOUBLE_EQ(time_of(s, {{1, 1, 100}, {1, 1, 1}}).bubble(), 3.0 / 102);
}

TEST(ScheduleTime, HandsOnWithinARankWhereTheDirectionTurns) {
  const PipelineSchedule s =
      schedule_of(v_shaped_chunks(2, 2), 1, {"F0.0 F1.0 B1.0 B0.0", "F0.0 F1.0 B1.0 B0.0"});
  EXPECT_EQ(time_of(s, std::vector<PassUnits>(4)).makespan(), 4 + 4 * 2);
}

TEST(ScheduleTime, EndsWhereAScheduleIsStuck) {
  const PipelineSchedule s =
      schedule_of(looped_chunks(2, 1), 2, {"F0.0 B0.0 F0.1 B0.1", "F0.0 F0.1 B0.0 B0.1"});
  const ScheduleTime time = time_of(s, std::vector<PassUnits>(2));
  EXPECT_EQ(time.ranks[0].done, 1U);
  EXPECT_EQ(time.ranks[1].done, 1U);
}

TEST(ScheduleTime, OfOneForwardOneBackwardAndGpipeIsTheSameWithEqualStages) {
  for (const PipelineSchedule& s : {one_forward_one_backward(4, 6), gpipe(4, 6)})
    EXPECT_EQ(time_of(s, std::vector<PassUnits>(4)).makespan(), (6 + 3) * 3);
}

}  // namespace
}  // namespace zplan
