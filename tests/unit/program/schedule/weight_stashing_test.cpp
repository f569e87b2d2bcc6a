#include "planner/program/schedule/weight_stashing.h"

#include <gtest/gtest.h>

#include <vector>

#include "planner/program/schedule/fold.h"
#include "tests/support/schedules.h"

namespace zplan {
namespace {

using testing_support::text_of;

TEST(WeightStashing, GoesThroughAllChunksOfOneRankMicroBatchByMicroBatch) {
  EXPECT_EQ(text_of(one_by_one_order(3, 2).passes),
            "F0.0 F1.0 F2.0 B2.0 B1.0 B0.0 F0.1 F1.1 F2.1 B2.1 B1.1 B0.1");
  EXPECT_EQ(body_size(fold(one_by_one_order(3, 8))), body_size(fold(one_by_one_order(3, 800))));
}

// Over three steps, each version in its slot from the forward that reads it, behind which it is
// put there, to its backward.
TEST(WeightStashing, GivesEachVersionASlotOfItsOwn) {
  for (const std::int32_t p : {2, 3, 8})
    for (std::int32_t m = p; m <= 40; ++m)
      for (std::int32_t stage = 0; stage < p; ++stage) {
        const std::int32_t slots = stash_slots(stage, p, m), behind = updates_behind(stage, p);
        EXPECT_EQ(slots == 0, stage == p - 1);
        if (slots == 0) continue;
        std::vector<std::int32_t> free_from(static_cast<std::size_t>(slots), 0);
        for (std::int32_t pair = 0; pair < 3 * m; ++pair) {
          std::int32_t& from = free_from[static_cast<std::size_t>(pair % m % slots)];
          EXPECT_LE(from, pair) << "stage " << stage << " of " << p << ", " << m;
          from = pair + behind;  // the backward comes ahead of that pair's update
        }
        if (m % behind == 0) {
          EXPECT_EQ(slots, behind);
        }
      }
}

TEST(WeightStashing, HasSlotsOfGradientsThatAStepDividesInto) {
  for (const std::int32_t chunks : {2, 3, 8})
    for (std::int32_t m = chunks; m <= 40; ++m) {
      const std::int32_t slots = gradient_slots(chunks, m);
      EXPECT_EQ(m % slots, 0);
      EXPECT_GE(slots, chunks);
      EXPECT_LE(slots, m);
    }
}

}  // namespace
}  // namespace zplan
