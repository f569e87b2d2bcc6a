#include "planner/program/schedule/zero_bubble_v.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "planner/program/schedule/check.h"
#include "planner/program/schedule/in_flight.h"
#include "tests/support/schedules.h"

namespace zplan {
namespace {

using testing_support::text_of;

TEST(ZeroBubbleV, FillsTheDrainWithWeightGradients) {
  EXPECT_EQ(text_of(zero_bubble_v_order(1, 2, 3).passes),
            "F0.0 F1.0 F0.1 F1.1 I1.0 W1.0 F0.2 I0.0 W0.0 F1.2 I1.1 W1.1 I0.1 I1.2 I0.2 W0.1 W1.2 "
            "W0.2");
}

TEST(ZeroBubbleV, LeavesOutMicroBatchesThatThereAreNot) {
  EXPECT_EQ(text_of(zero_bubble_v_order(1, 2, 1).passes), "F0.0 F1.0 I1.0 W1.0 I0.0 W0.0");
}

TEST(ZeroBubbleV, HasPhases) {
  EXPECT_THAT(zero_bubble_v_order(1, 2, 3).cuts, testing::ElementsAre(6, 12));
}

TEST(ZeroBubbleV, CanBeWorkedOff) {
  for (const std::int32_t p : {1, 2, 3, 5, 8})
    for (const std::int32_t m : {1, 2, 4, 8, 15, 24})
      EXPECT_EQ(fault_of(zero_bubble_v(p, m)), std::nullopt) << p << " " << m;
}

TEST(ZeroBubbleV, LeavesWeightGradientsOfADrainForLater) {
  EXPECT_EQ(input_to_weight(zero_bubble_v_order(3, 4, 12).passes, 1), (InFlight{3, 3}));
  EXPECT_EQ(input_to_weight(zero_bubble_v_order(0, 4, 12).passes, 1), (InFlight{1, 1}));
}

TEST(ZeroBubbleV, FoldsToAFewPassesForAnyNumberOfMicroBatches) {
  for (std::int32_t rank = 0; rank < 16; ++rank) {
    const PassOrder order = zero_bubble_v_order(rank, 16, 80);
    EXPECT_EQ(unfold(fold(order)), order.passes);
    EXPECT_LE(body_size(fold(order)), 24U) << rank;
    EXPECT_EQ(body_size(fold(order)), body_size(fold(zero_bubble_v_order(rank, 16, 800))));
  }
}

}  // namespace
}  // namespace zplan
