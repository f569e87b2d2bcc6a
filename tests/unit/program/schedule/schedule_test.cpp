#include "planner/program/schedule/schedule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "planner/program/schedule/one_forward_one_backward.h"
#include "tests/support/schedules.h"

namespace zplan {
namespace {

using testing::ElementsAre;
using testing_support::order_of;
using testing_support::text_of;

TEST(ChunkMap, DealsChunksOutInLoops) {
  const ChunkMap map = looped_chunks(3, 2);
  EXPECT_THAT(map.positions(),
              ElementsAre(ElementsAre(0, 3), ElementsAre(1, 4), ElementsAre(2, 5)));
  EXPECT_EQ(map.at(4), (ChunkMap::Place{1, 1}));
}

TEST(ChunkMap, TurnsAtTheLastRankAndAtTheFirst) {
  const ChunkMap map = v_shaped_chunks(2, 3);
  EXPECT_THAT(map.positions(), ElementsAre(ElementsAre(0, 3, 4), ElementsAre(1, 2, 5)));
  EXPECT_EQ(map.at(2), (ChunkMap::Place{1, 1}));
}

TEST(ChunkMap, InvertsItsTable) {
  for (const ChunkMap& map : {looped_chunks(4, 3), v_shaped_chunks(4, 4)})
    for (std::int32_t p = 0; p < map.size(); ++p)
      EXPECT_EQ(map.position(map.at(p).rank, map.at(p).chunk), p);
}

TEST(Pass, HasATextAndADescription) {
  const Pass pass{.kind = PassKind::kWeightBackward, .chunk = 1, .micro = 12};
  EXPECT_EQ(text(pass), "W1.12");
  EXPECT_EQ(description(pass), "weight backward of micro-batch 12, chunk 1");
}

TEST(OneForwardOneBackward, WarmsUpAlternatesAndDrains) {
  const PassOrder order = one_forward_one_backward_order(1, 4, 5);
  EXPECT_EQ(text_of(order.passes), "F0.0 F0.1 F0.2 B0.0 F0.3 B0.1 F0.4 B0.2 B0.3 B0.4");
  EXPECT_THAT(order.cuts, ElementsAre(2, 8));
}

TEST(OneForwardOneBackward, HasNoSteadyStateWithFewMicroBatches) {
  EXPECT_EQ(text_of(one_forward_one_backward_order(0, 4, 2).passes), "F0.0 F0.1 B0.0 B0.1");
}

TEST(Gpipe, RunsAllForwardsFirst) {
  EXPECT_EQ(text_of(gpipe_order(3).passes), "F0.0 F0.1 F0.2 B0.0 B0.1 B0.2");
}

TEST(Phases, AreFoundInAnOrder) {
  for (std::int32_t stage = 0; stage < 4; ++stage) {
    const PassOrder built = one_forward_one_backward_order(stage, 4, 7);
    PassOrder found{built.passes, {}};
    find_phases(found);
    EXPECT_EQ(found.cuts, built.cuts) << stage;
  }
  PassOrder split = order_of("F0.0 F0.1 I0.0 W0.0 F0.2 I0.1 W0.1 I0.2 W0.2");
  find_phases(split);
  EXPECT_THAT(split.cuts, ElementsAre(1, 7));
}

TEST(LastPasses, OfEachChunkAndPartOfBackwardAreApart) {
  PassOrder order = order_of("F0.0 F1.0 B1.0 I0.0 W0.0 F1.1 B1.1 F0.1 B0.1 W0.2");
  set_last_apart(order);
  std::string apart;
  for (const Pass& pass : order.passes)
    if (pass.apart) apart += text(pass) + " ";
  EXPECT_EQ(apart, "B1.1 B0.1 W0.2 ");
}

TEST(LastPasses, ComeAfterThoseOfWhatIsLeftOfEarlierOnes) {
  EXPECT_EQ(out_of_turn(order_of("F0.0 F0.1 F0.2 B0.0 I0.1 W0.1 B0.2")), std::nullopt);
  EXPECT_EQ(out_of_turn(order_of("F0.0 F1.0 F0.1 I0.0 B1.0 W0.0 B0.1")), std::nullopt);
  const auto pass = out_of_turn(order_of("F0.0 F0.1 I0.0 B0.1 W0.0"));
  ASSERT_TRUE(pass);
  EXPECT_EQ(text(*pass), "B0.1");
}

}  // namespace
}  // namespace zplan
