#include "planner/program/schedule/zero_bubble_h1.h"

#include <gtest/gtest.h>

#include "planner/program/schedule/check.h"
#include "planner/program/schedule/in_flight.h"
#include "tests/support/schedules.h"

namespace zplan {
namespace {

using testing_support::text_of;

TEST(ZeroBubbleH1, LagsBehindWithWeightGradientsByStages) {
  EXPECT_EQ(text_of(zero_bubble_h1_order(0, 3, 4).passes),
            "F0.0 F0.1 F0.2 I0.0 W0.0 F0.3 I0.1 W0.1 I0.2 W0.2 I0.3 W0.3");
  EXPECT_EQ(text_of(zero_bubble_h1_order(1, 3, 4).passes),
            "F0.0 F0.1 I0.0 F0.2 I0.1 W0.0 F0.3 I0.2 W0.1 I0.3 W0.2 W0.3");
  EXPECT_EQ(text_of(zero_bubble_h1_order(2, 3, 4).passes),
            "F0.0 I0.0 F0.1 I0.1 F0.2 I0.2 W0.0 F0.3 I0.3 W0.1 W0.2 W0.3");
}

TEST(ZeroBubbleH1, TakesFewerMicroBatchesThanStages) {
  EXPECT_EQ(text_of(zero_bubble_h1_order(0, 4, 2).passes), "F0.0 F0.1 I0.0 W0.0 I0.1 W0.1");
  EXPECT_EQ(text_of(zero_bubble_h1_order(3, 4, 2).passes), "F0.0 I0.0 F0.1 I0.1 W0.0 W0.1");
}

TEST(ZeroBubbleH1, CanBeWorkedOff) {
  for (const std::int32_t p : {1, 2, 3, 5, 8})
    for (const std::int32_t m : {1, 2, 4, 8, 15, 24})
      EXPECT_EQ(fault_of(zero_bubble_h1(p, m)), std::nullopt) << p << " " << m;
}

TEST(ZeroBubbleH1, FoldsToAFewPassesForAnyNumberOfMicroBatches) {
  for (std::int32_t stage = 0; stage < 16; ++stage) {
    const PassOrder order = zero_bubble_h1_order(stage, 16, 80);
    EXPECT_EQ(unfold(fold(order)), order.passes);
    EXPECT_LE(body_size(fold(order)), 20U) << stage;
    EXPECT_EQ(body_size(fold(order)), body_size(fold(zero_bubble_h1_order(stage, 16, 800))));
  }
}

}  // namespace
}  // namespace zplan
