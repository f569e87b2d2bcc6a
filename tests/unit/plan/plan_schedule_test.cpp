#include "planner/plan/plan_schedule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/schedules.h"

namespace zplan {
namespace {

Plan plan_of(Schedule schedule, std::int32_t pp, std::int64_t micro_steps) {
  Plan plan;
  plan.schedule = schedule;
  plan.parallel = {.dp = 2, .pp = pp};
  plan.batch = {.global_batch = 2 * 3 * micro_steps, .micro_batch = 3};
  return plan;
}

TEST(PlanSchedule, IsTheOneThatThePlanNames) {
  EXPECT_EQ(testing_support::text_of(
                order_of_stage(plan_of(Schedule::kOneForwardOneBackward, 2, 3), 0).passes),
            "F0.0 F0.1 B0.0 F0.2 B0.1 B0.2");
  EXPECT_EQ(testing_support::text_of(order_of_stage(plan_of(Schedule::kGpipe, 2, 3), 0).passes),
            "F0.0 F0.1 F0.2 B0.0 B0.1 B0.2");
}

TEST(PlanSchedule, TellsTheMicroBatchesInFlight) {
  using testing::ElementsAre;
  const auto of = [](std::int32_t piece, std::int64_t micro_batches) {
    return std::vector{PieceInFlight{piece, micro_batches}};
  };
  EXPECT_THAT(in_flight_of_stages(plan_of(Schedule::kOneForwardOneBackward, 4, 3)),
              ElementsAre(of(0, 3), of(1, 3), of(2, 2), of(3, 1)));
  EXPECT_THAT(in_flight_of_stages(plan_of(Schedule::kGpipe, 2, 3)),
              ElementsAre(of(0, 3), of(1, 3)));
}

}  // namespace
}  // namespace zplan
