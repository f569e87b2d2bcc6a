#include "planner/program/schedule/in_flight.h"

#include <gtest/gtest.h>

#include "tests/support/schedules.h"

namespace zplan {
namespace {

using testing_support::order_of;

TEST(InFlight, IsCountedFromForwardToTheWeightGradient) {
  const auto passes = order_of("F0.0 F0.1 I0.0 F0.2 W0.0 B0.1 B0.2").passes;
  EXPECT_EQ(forward_to_backward(passes, 0), (InFlight{3, 3}));
  EXPECT_EQ(input_to_weight(passes, 0), (InFlight{1, 1}));
}

TEST(InFlight, IsCountedForEachChunk) {
  const auto passes = order_of("F0.0 F1.0 F0.1 F1.1 B1.0 B1.1 F1.2 B1.2 B0.0 B0.1").passes;
  EXPECT_EQ(forward_to_backward(passes, 0), (InFlight{2, 2}));
  EXPECT_EQ(forward_to_backward(passes, 1), (InFlight{2, 2}));
  EXPECT_EQ(forward_to_backward(passes, 2), (InFlight{0, 0}));
  EXPECT_EQ(most_chunks_in_flight(passes), 4);
}

TEST(InFlight, SpansMicroBatchesThatAreOutOfOrder) {
  EXPECT_EQ(forward_to_backward(order_of("F0.0 F0.1 B0.1 F0.2 B0.2 B0.0").passes, 0),
            (InFlight{2, 3}));
  EXPECT_EQ(forward_to_backward(order_of("F0.3 F0.0 B0.3 B0.0 F0.1 B0.1").passes, 0),
            (InFlight{2, 4}));
  EXPECT_EQ(forward_to_backward(order_of("F0.3 F0.5 B0.5 F0.0 B0.3 B0.0").passes, 0),
            (InFlight{2, 4}));
}

TEST(InFlight, CountsWeightBackwardsThatAreLeftForLater) {
  const auto passes = order_of("F0.0 F0.1 I0.0 I0.1 W0.0 W0.1").passes;
  EXPECT_EQ(input_to_weight(passes, 0), (InFlight{2, 2}));
}

TEST(InFlight, HasNothingBetweenThePartsOfAWholeBackward) {
  EXPECT_EQ(input_to_weight(order_of("F0.0 F0.1 B0.0 B0.1").passes, 0), (InFlight{0, 0}));
}

}  // namespace
}  // namespace zplan
