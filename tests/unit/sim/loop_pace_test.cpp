#include "sim/loop_pace.h"

#include <gtest/gtest.h>

#include <vector>

namespace zplan::sim {
namespace {

constexpr std::int64_t kWindow = LoopPace::kWindow;

// Classes that pass two windows each, whose iterations take so long.
struct Windows {
  std::int64_t first, last;
};
LoopPace passed(const std::vector<Windows>& classes) {
  LoopPace pace(classes.size());
  for (std::size_t stage = 0; stage < classes.size(); ++stage) {
    pace.take_part(stage);
    SimTime now{0};
    pace.pass(stage, now);
    for (std::int64_t i = 0; i < 2 * kWindow; ++i) {
      now += SimTime{i < kWindow ? classes[stage].first : classes[stage].last};
      pace.pass(stage, now);
    }
  }
  return pace;
}

TEST(LoopPace, IsKnownAfterTwoWindowsOfEachClass) {
  LoopPace pace(2);
  pace.take_part(1);
  for (std::int64_t i = 0; i < 2 * kWindow; ++i) {
    pace.pass(1, SimTime{10 * i});
    EXPECT_FALSE(pace.range().has_value()) << i;
  }
  pace.pass(1, SimTime{10 * 2 * kWindow});
  ASSERT_TRUE(pace.range().has_value()) << "the other one takes no part";
  EXPECT_EQ(pace.range()->most.value, 10 * kWindow);
  pace.restart();
  EXPECT_FALSE(pace.range().has_value());
}

TEST(LoopPace, RangesOverBothWindowsOfAllClasses) {
  const LoopPace pace = passed({{100, 110}, {105, 90}});
  EXPECT_EQ(pace.range(0).least.value, 100 * kWindow);
  EXPECT_EQ(pace.range(0).most.value, 110 * kWindow);
  EXPECT_EQ(pace.range()->least.value, 90 * kWindow);
  EXPECT_EQ(pace.range()->most.value, 110 * kWindow);
  EXPECT_EQ(pace.pace(1).value, 90 * kWindow) << "the last window";
  EXPECT_TRUE(pace.range(0).within(0.1));
  EXPECT_FALSE(pace.range(0).within(0.09));
}

// One in 16 may slow down to the pace of the slowest, which some class has kept; none may speed up.
TEST(LoopPace, ClassesKeepTheirOwnPacesButForAFewThatSlowDown) {
  std::vector<Windows> classes(32, {100, 100});
  classes[0] = {200, 200};
  EXPECT_TRUE(passed(classes).all_keep_pace(0.01));
  classes[1] = {100, 150};
  classes[2] = {100, 150};
  EXPECT_TRUE(passed(classes).all_keep_pace(0.01));
  classes[3] = {100, 150};
  EXPECT_FALSE(passed(classes).all_keep_pace(0.01)) << "three of 32 are no few";
  classes[2] = classes[3] = {100, 100};
  classes[1] = {150, 100};
  EXPECT_FALSE(passed(classes).all_keep_pace(0.01)) << "it speeds up";
  classes[1] = {100, 300};
  EXPECT_FALSE(passed(classes).all_keep_pace(0.01)) << "nobody has kept the pace of the slowest";
}

}  // namespace
}  // namespace zplan::sim
