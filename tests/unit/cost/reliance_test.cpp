#include "planner/cost/reliance.h"

#include <gtest/gtest.h>

namespace zplan {
namespace {

constexpr Constant kFirst = 3, kSecond = 7;

// d log(time) / d log(constant); 0: none.
double elasticity(const Reliances& rests, Constant constant) {
  for (const Reliance& row : rests.rows())
    if (row.constant == constant) return row.elasticity;
  return 0;
}

TEST(Reliances, ElasticitiesToOneConstantAddUp) {
  Reliances rests{{kFirst, 0.5}};
  rests.add(kFirst, 0.25);
  rests.add(kSecond, 0);
  ASSERT_EQ(rests.rows().size(), 1u);
  EXPECT_FLOAT_EQ(rests.rows()[0].elasticity, 0.75);
}

// 3 s that follow a constant and 1 s that does not.
TEST(RestingTime, AFixedTimeFollowsNothing) {
  const RestingTime time{Seconds{3}, {{kFirst, 1}}};
  EXPECT_EQ(time.after(Seconds{1}).time, Seconds{4});
  EXPECT_FLOAT_EQ(elasticity(time.after(Seconds{1}).rests, kFirst), 0.75);
  EXPECT_FLOAT_EQ(elasticity(time.after(Seconds{0}).rests, kFirst), 1);
}

TEST(RestingTime, AFactorIsAConstantThatTheTimeIsInProportionTo) {
  const RestingTime time = RestingTime{Seconds{3}, {{kFirst, 1}}}.times(2, kSecond);
  EXPECT_EQ(time.time, Seconds{6});
  EXPECT_FLOAT_EQ(elasticity(time.rests, kFirst), 1);
  EXPECT_FLOAT_EQ(elasticity(time.rests, kSecond), 1);
}

TEST(RestingTime, OfTwoLimitsTheSlowerCountsWithWhatItRestsOn) {
  const RestingTime quick{Seconds{1}, {{kFirst, 1}}}, slow{Seconds{2}, {{kSecond, 1}}};
  for (const RestingTime& time : {slower(quick, slow), slower(slow, quick)}) {
    EXPECT_EQ(time.time, Seconds{2});
    EXPECT_EQ(elasticity(time.rests, kFirst), 0);
    EXPECT_FLOAT_EQ(elasticity(time.rests, kSecond), 1);
  }
}

// Of 4 s in turn 1 follows the first constant and 3 the second.
TEST(RestingTime, OneAfterTheOtherEachCountsWithItsShareOfTheSum) {
  const RestingTime sum = both({Seconds{1}, {{kFirst, 1}}}, {Seconds{3}, {{kSecond, 1}}});
  EXPECT_EQ(sum.time, Seconds{4});
  EXPECT_FLOAT_EQ(elasticity(sum.rests, kFirst), 0.25);
  EXPECT_FLOAT_EQ(elasticity(sum.rests, kSecond), 0.75);
  EXPECT_EQ(both({}, {}).time, Seconds{0});
}

}  // namespace
}  // namespace zplan
