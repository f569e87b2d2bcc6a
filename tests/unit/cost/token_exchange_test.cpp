#include "planner/cost/token_exchange.h"

#include <gtest/gtest.h>

namespace zplan {
namespace {

// [DeepSeek25 sec 3.2.2] 256 experts over 64 ranks of 8 nodes, 8 chosen from those of 4 nodes.
constexpr TokenChoices kDeepSeek{
    .per_token = 8, .experts = 256, .groups = 8, .groups_per_token = 4};

TEST(TokenExchange, ATokenReachesAtMostTheNodesOfItsGroupsAndARankForEachChoice) {
  const TokenReach reach = reach_of(kDeepSeek, 64, 8);
  EXPECT_LE(reach.nodes, 4);
  // 4 (1 - C(96, 8) / C(128, 8)), by hand.
  EXPECT_NEAR(reach.nodes, 3.629, 0.001);
  EXPECT_GT(reach.ranks, reach.nodes);
  EXPECT_LT(reach.ranks, 8);
}

TEST(TokenExchange, ChoicesOfAllExpertsReachAllRanks) {
  const TokenReach reach = reach_of({.per_token = 16, .experts = 16}, 8, 2);
  EXPECT_DOUBLE_EQ(reach.ranks, 8);
  EXPECT_DOUBLE_EQ(reach.nodes, 2);
}

TEST(TokenExchange, OneChoiceReachesOneRank) {
  const TokenReach reach = reach_of({.per_token = 1, .experts = 64}, 8, 2);
  EXPECT_NEAR(reach.ranks, 1, 1e-12);
  EXPECT_NEAR(reach.nodes, 1, 1e-12);
}

// 8 (1 - C(112, 8) / C(128, 8)) = 5.33 of 8 ranks hold the choices of a token [derived].
TEST(TokenExchange, WithinANodeARankSendsATokenToEachOtherRankThatHasOneOfItsExperts) {
  const TokenChoices choices{.per_token = 8, .experts = 128};
  const double ranks = reach_of(choices, 8, 1).ranks;
  EXPECT_NEAR(ranks, 5.33, 0.01);
  const CollectiveCall call{.kind = CollectiveKind::kAllToAll,
                            .bytes = {8'000'000},
                            .ranks = 8,
                            .nodes = 1,
                            .local = {100e9},
                            .border = kUnlimited};
  const CollectiveTime time = token_exchange_time(call, choices, Seconds{1e-6}, 0.5);
  EXPECT_NEAR(time.transfer.value, 1e6 * ranks * 7 / 8 / 50e9, 1e-9);
  EXPECT_EQ(time.crossing.value, 0);
  EXPECT_GT(time.latency, Seconds{1e-6});
}

TEST(TokenExchange, OverNodesTheSlowerOfNetworkAndFastLinksCounts) {
  const CollectiveCall call{.kind = CollectiveKind::kAllToAll,
                            .bytes = {8'000'000},
                            .ranks = 64,
                            .nodes = 8,
                            .local = {1e15},
                            .border = {1e9}};
  const double nodes = reach_of(kDeepSeek, 64, 8).nodes;
  const CollectiveTime time = token_exchange_time(call, kDeepSeek, {}, 1);
  EXPECT_NEAR(time.transfer.value, 1e6 * nodes * 7 / 8 * 8 / 1e9, 1e-6);
}

TEST(TokenExchange, AttributesOfNoNodeSayThatRowsTravelByThemselves) {
  EXPECT_FALSE(rows_travel_together({}));
  const auto choices = rows_travel_together({8, 256, 8, 4});
  ASSERT_TRUE(choices);
  EXPECT_EQ(choices->groups_per_token, 4);
  EXPECT_EQ(rows_travel_together({8, 256, 8, 0})->groups_per_token, 8);
}

}  // namespace
}  // namespace zplan
