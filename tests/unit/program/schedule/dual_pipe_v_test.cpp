#include "planner/program/schedule/dual_pipe_v.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "planner/program/schedule/check.h"
#include "tests/support/schedules.h"

namespace zplan {
namespace {

using testing_support::text_of;

TEST(DualPipeV, PairsForwardsWithBackwardsBetweenItsEnds) {
  EXPECT_EQ(text_of(dual_pipe_v_order(0, 2, 5).passes),
            "F0.0 F0.1 F0.2 F1.0 I1.0 W1.0 F1.1 F0.3 B1.1 F1.2 B0.0 F0.4 B1.2 F1.3 B0.1 B1.3 F1.4 "
            "B0.2 B1.4 I0.3 W0.3 I0.4 W0.4");
  EXPECT_EQ(text_of(dual_pipe_v_order(1, 2, 4).passes),
            "F0.0 F1.0 F0.1 F1.1 F0.2 B1.0 F1.2 B0.0 F0.3 B1.1 F1.3 B0.1 B1.2 B0.2 I1.3 I0.3 W1.3 "
            "W0.3");
}

TEST(DualPipeV, HasPhases) {
  EXPECT_THAT(dual_pipe_v_order(0, 2, 5).cuts, testing::ElementsAre(7, 15));
}

TEST(DualPipeV, CanBeWorkedOffWithTwoMicroBatchesPerRankOrMore) {
  for (const std::int32_t p : {1, 2, 3, 5, 8})
    for (const std::int32_t more : {0, 1, 3, 20})
      EXPECT_EQ(fault_of(dual_pipe_v(p, least_of_dual_pipe_v(p) + more)), std::nullopt)
          << p << " " << more;
  for (std::int32_t rank = 0; rank < 8; ++rank)
    EXPECT_EQ(out_of_turn(dual_pipe_v_order(rank, 8, 20)), std::nullopt) << rank;
}

TEST(DualPipeV, FoldsToAFewPassesForAnyNumberOfMicroBatches) {
  for (std::int32_t rank = 0; rank < 16; ++rank) {
    const PassOrder order = dual_pipe_v_order(rank, 16, 80);
    EXPECT_EQ(unfold(fold(order)), order.passes);
    EXPECT_LE(body_size(fold(order)), 40U) << rank;
    EXPECT_EQ(body_size(fold(order)), body_size(fold(dual_pipe_v_order(rank, 16, 800))));
  }
}

}  // namespace
}  // namespace zplan
