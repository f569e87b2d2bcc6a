#include "planner/search/pareto.h"

#include <gtest/gtest.h>

namespace zplan {
namespace {

Simulated plan(double step, std::int64_t gpu, std::int32_t dp) {
  Simulated result{.plan = {}, .step = {step}, .gpu = {gpu}};
  result.plan.parallel.dp = dp;
  return result;
}

TEST(Pareto, KeepsWhatNoOtherPlanBeats) {
  const std::vector<Simulated> front = pareto_front(
      {plan(1, 90, 8), plan(2, 50, 8), plan(3, 60, 8), plan(4, 50, 8), plan(9, 95, 4)});
  ASSERT_EQ(front.size(), 3U);
  EXPECT_EQ(front[0].step, Seconds{1});
  EXPECT_EQ(front[1].step, Seconds{2});
  EXPECT_EQ(front[2].step, Seconds{9});
}

TEST(Pareto, OfPlansAlikeKeepsTheFirst) {
  EXPECT_EQ(pareto_front({plan(1, 5, 2), plan(1, 5, 2)}).size(), 1U);
}

}  // namespace
}  // namespace zplan
