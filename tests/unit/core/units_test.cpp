// Unit arithmetic.
#include "planner/core/units.h"

#include <gtest/gtest.h>

namespace zplan {
namespace {

TEST(Units, AddCompareAndScale) {
  EXPECT_EQ(Bytes{3} + Bytes{4} - Bytes{2}, Bytes{5});
  EXPECT_EQ(3 * Bytes{4} / 2, Bytes{6});
  EXPECT_LT(Seconds{1}, Seconds{2});
  Bytes sum{1};
  sum += Bytes{2};
  sum -= Bytes{1};
  EXPECT_EQ(sum, Bytes{2});
}

TEST(Units, WorkOverRateIsTime) {
  EXPECT_EQ(Bytes{12'000} / BytesPerSecond{4'000}, Seconds{3});
  EXPECT_EQ(Flops{12'000} / FlopsPerSecond{4'000}, Seconds{3});
}

TEST(Units, SimTimeRoundsToPicoseconds) {
  EXPECT_EQ(to_sim_time({1.4e-12}), SimTime{1});
  EXPECT_EQ(to_sim_time({1.6e-12}), SimTime{2});
  EXPECT_EQ(to_seconds(SimTime{2'500'000'000'000}), Seconds{2.5});
}

TEST(Units, RoundingUpReachesTheMultiple) {
  EXPECT_EQ(round_up(Bytes{1}, Bytes{256}), Bytes{256});
  EXPECT_EQ(round_up(Bytes{256}, Bytes{256}), Bytes{256});
  EXPECT_EQ(ceil_div(0, 5), 0);
  EXPECT_EQ(ceil_div(11, 5), 3);
}

}  // namespace
}  // namespace zplan
