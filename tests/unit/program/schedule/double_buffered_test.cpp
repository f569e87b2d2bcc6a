#include "planner/program/schedule/double_buffered.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <vector>

#include "planner/program/schedule/fold.h"
#include "tests/support/schedules.h"

namespace zplan {
namespace {

using testing_support::text_of;

TEST(DoubleBuffered, BeginsWithTheLastBackwardsOfTheStepBefore) {
  EXPECT_EQ(text_of(double_buffered_order(0, 3, 4).passes),
            "F0.0 B0.2 F0.1 B0.3 F0.2 B0.0 F0.3 B0.1");
  EXPECT_EQ(text_of(double_buffered_order(1, 3, 4).passes),
            "F0.0 B0.3 F0.1 B0.0 F0.2 B0.1 F0.3 B0.2");
  EXPECT_EQ(text_of(double_buffered_order(2, 3, 4).passes),
            "F0.0 B0.0 F0.1 B0.1 F0.2 B0.2 F0.3 B0.3");
}

// The gradients of a step are whole there: the last backward before it is of the last micro-batch.
TEST(DoubleBuffered, UpdatesBehindTheBackwardThatIsSetApart) {
  for (const std::int32_t p : {2, 3, 8})
    for (const std::int32_t m : {8, 9, 40})
      for (std::int32_t stage = 0; stage < p; ++stage) {
        const std::vector<Pass> passes = double_buffered_order(stage, p, m).passes;
        const auto apart =
            std::find_if(passes.begin(), passes.end(), [](const Pass& pass) { return pass.apart; });
        ASSERT_NE(apart, passes.end());
        EXPECT_EQ(apart->kind, PassKind::kBackward);
        EXPECT_EQ(apart->micro, m - 1);
        const auto behind = static_cast<std::size_t>(apart - passes.begin()) + 1;
        EXPECT_EQ(behind % passes.size(), passes_before_update(stage, p));
      }
}

TEST(DoubleBuffered, HasEachPassOnce) {
  for (const std::int32_t p : {2, 3, 8})
    for (const std::int32_t m : {8, 9, 40}) {
      const std::vector<Pass> passes = double_buffered_order(0, p, m).passes;
      std::set<std::string> seen;
      for (const Pass& pass : passes) seen.insert(text(pass));
      EXPECT_EQ(seen.size(), passes.size());
      EXPECT_EQ(std::ssize(passes), 2 * m);
    }
}

// Over three steps, each micro-batch in its slot from its forward to its backward.
TEST(DoubleBuffered, GivesEachMicroBatchInFlightASlotOfItsOwn) {
  for (std::int32_t m = 1; m <= 40; ++m)
    for (std::int32_t in_turn = 1; in_turn <= m; ++in_turn) {
      const std::int32_t slots = slots_across_steps(in_turn, m);
      std::vector<std::int32_t> free_from(static_cast<std::size_t>(slots), 0);
      for (std::int32_t pair = 0; pair < 3 * m; ++pair) {
        std::int32_t& from = free_from[static_cast<std::size_t>(pair % m % slots)];
        EXPECT_LE(from, pair) << m << " micro-batches, " << in_turn << " in turn";
        from = pair + in_turn;
      }
      EXPECT_LE(slots, m);
      if (m % in_turn == 0) {
        EXPECT_EQ(slots, in_turn);
      }
    }
}

TEST(DoubleBuffered, FoldsToAsManyBodiesWhateverTheNumberOfMicroBatches) {
  for (const std::int32_t stage : {0, 3, 15})
    EXPECT_EQ(body_size(fold(double_buffered_order(stage, 16, 80))),
              body_size(fold(double_buffered_order(stage, 16, 800))));
}

}  // namespace
}  // namespace zplan
