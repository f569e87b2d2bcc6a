#include "planner/program/schedule/fold.h"

#include <gtest/gtest.h>

#include <chrono>

#include "planner/program/schedule/one_forward_one_backward.h"
#include "tests/support/schedules.h"

namespace zplan {
namespace {

using testing_support::folded;
using testing_support::order_of;

PassOrder with_last_apart(PassOrder order) {
  set_last_apart(order);
  return order;
}

TEST(Fold, OfOneForwardOneBackwardIsALoopPerPhase) {
  EXPECT_EQ(folded(one_forward_one_backward_order(1, 4, 9)), "2x(F0)@0 7x(F0+2 B0)@0 2x(B0)@7");
  EXPECT_EQ(folded(with_last_apart(one_forward_one_backward_order(1, 4, 9))),
            "2x(F0)@0 7x(F0+2 B0)@0 1x(B0)@7 1x(B0!)@8");
}

TEST(Fold, OfTheLastStageIsOneLoop) {
  EXPECT_EQ(folded(one_forward_one_backward_order(3, 4, 9)), "9x(F0 B0)@0");
  EXPECT_EQ(folded(with_last_apart(one_forward_one_backward_order(3, 4, 9))),
            "8x(F0 B0)@0 1x(F0 B0!)@8");
  EXPECT_EQ(folded(with_last_apart(one_forward_one_backward_order(0, 1, 1))), "1x(F0 B0!)@0");
}

TEST(Fold, KeepsPhasesApartHoweverShort) {
  EXPECT_EQ(folded(one_forward_one_backward_order(0, 3, 3)), "2x(F0)@0 1x(F0+2 B0)@0 2x(B0)@1");
  EXPECT_EQ(folded(one_forward_one_backward_order(0, 4, 2)), "2x(F0)@0 2x(B0)@0");
  EXPECT_EQ(folded(gpipe_order(1)), "1x(F0)@0 1x(B0)@0");
}

TEST(Fold, KeepsAForwardAndTheBackwardBesideItInOneBody) {
  EXPECT_EQ(folded(one_stage_in_turns(2)), "1x(F0)@0 1x(F0&~+1 B0)@0 1x(B0~)@1");
  EXPECT_EQ(folded(with_last_apart(one_stage_in_turns(8))),
            "1x(F0)@0 3/2x(F0&~+1 B0 F0&+2 B0~+1)@0 1x(F0&~+1 B0)@6 1x(B0!~)@7");
}

TEST(Fold, OfGpipeIsTwoLoops) {
  EXPECT_EQ(folded(gpipe_order(5)), "5x(F0)@0 5x(B0)@0");
  EXPECT_EQ(folded(with_last_apart(gpipe_order(5))), "5x(F0)@0 4x(B0)@0 1x(B0!)@4");
}

TEST(Fold, GroupsSinglePassesUntilOneComesAgain) {
  EXPECT_EQ(folded(order_of("F0.0 B0.0 F0.1 W0.5 B0.3")), "1x(F0 B0)@0 1x(F0 W0+4 B0+2)@1");
}

TEST(Fold, TakesMillisecondsForThousandsOfMicroBatches) {
  const PassOrder order = one_forward_one_backward_order(5, 64, 16000);
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < 10; ++i) EXPECT_EQ(body_size(fold(order)), 4U);
  const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - begin;
  EXPECT_LT(taken.count(), 1.0) << "ten folds of 32,000 passes";
}

// Two chunks take turns in rounds of three micro-batches, as a schedule of several chunks has it.
TEST(Fold, FindsInnerLoopsWithinThePeriod) {
  PassOrder order;
  for (std::int32_t micro = 0; micro < 12; micro += 3)
    for (const std::int32_t chunk : {0, 1})
      for (std::int32_t i = 0; i < 3; ++i) order.add(PassKind::kForward, chunk, micro + i);
  EXPECT_EQ(folded(order), "4/3x(3x(F0)@0 3x(F1)@0)@0");
}

TEST(Fold, FindsLoopsOfLoopsNextToEachOther) {
  EXPECT_EQ(folded(order_of("F0.0 B0.5 F0.1 B0.6 F0.20 B0.25 F0.21 B0.26")),
            "2/20x(2x(F0 B0+5)@0)@0");
}

TEST(Fold, KeepsLoopsWithinTheDepthOfAProgram) {
  PassOrder order;  // loops of loops of loops
  for (std::int32_t a = 0; a < 4; ++a)
    for (std::int32_t b = 0; b < 4; ++b)
      for (std::int32_t c = 0; c < 4; ++c)
        for (std::int32_t d = 0; d < 4; ++d)
          order.add(PassKind::kForward, d == 0 ? 1 : 0, 1000 * a + 100 * b + 10 * c + d);
  const auto depth = [](const auto& self, const PassLoop& loop) -> int {
    int most = 0;
    for (const LoopEntry& entry : loop.body)
      if (const auto* inner = std::get_if<PassLoop>(&entry))
        most = std::max(most, self(self, *inner));
    return most + 1;
  };
  const std::vector<PassLoop> loops = fold(order);
  EXPECT_EQ(unfold(loops), order.passes);
  for (const PassLoop& loop : loops) EXPECT_LE(depth(depth, loop), kMaxPassLoops);
}

}  // namespace
}  // namespace zplan
