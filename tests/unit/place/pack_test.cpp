#include "planner/place/pack.h"

#include <gtest/gtest.h>

namespace zplan {
namespace {

constexpr Bytes kUnit = kBufferAlignment;
constexpr Bytes kTight{0};

TEST(Pack, TenantsOneAfterTheOtherShare) {
  const std::vector<Tenant> tenants{{kUnit, {0, 1}}, {kUnit, {2, 3}}, {kUnit, {4, 5}}};
  const Packing packing = pack(tenants, 6, kTight);
  EXPECT_EQ(packing.slab, kUnit);
  EXPECT_EQ(packing.offset, (std::vector<Bytes>{{0}, {0}, {0}}));
}

TEST(Pack, TenantsAtTheSameTimeDoNot) {
  const std::vector<Tenant> tenants{{kUnit, {0, 2}}, {kUnit, {2, 3}}};
  EXPECT_EQ(pack(tenants, 4, kTight).slab, 2 * kUnit);
}

TEST(Pack, ASmallTenantFillsTheGapBetweenLargeOnes) {
  const std::vector<Tenant> tenants{
      {4 * kUnit, {0, 9}}, {2 * kUnit, {0, 4}}, {2 * kUnit, {5, 9}}, {kUnit, {0, 9}}};
  EXPECT_EQ(pack(tenants, 10, kTight).slab, 7 * kUnit);
}

TEST(Pack, WithinTheBudgetTheRangeFreeForLongestIsTaken) {
  // When the last one starts, the first has been gone for 6 nodes, the second for 1.
  const std::vector<Tenant> tenants{
      {2 * kUnit, {10, 11}}, {2 * kUnit, {10, 16}}, {kUnit, {17, 18}}};
  const Packing spread = pack(tenants, 40, 4 * kUnit);
  EXPECT_EQ(spread.slab, 4 * kUnit);
  const Bytes first = spread.offset[0], at = spread.offset[2];
  EXPECT_TRUE(at >= first && at < first + 2 * kUnit);
}

TEST(Pack, HowLongARangeIsFreeCountsAcrossTheEndOfTheStep) {
  // From the last to the first of the next step it is 1 node, from the second to the last 17.
  const std::vector<Tenant> tenants{{2 * kUnit, {0, 1}}, {2 * kUnit, {20, 21}}, {kUnit, {38, 39}}};
  const Packing spread = pack(tenants, 40, 4 * kUnit);
  const Bytes second = spread.offset[1], at = spread.offset[2];
  EXPECT_TRUE(at >= second && at < second + 2 * kUnit);
}

TEST(Pack, OfEquallyGoodPlacesTheLowestIsTaken) {
  const std::vector<Tenant> tenants{{kUnit, {0, 1}}, {kUnit, {0, 1}}, {kUnit, {10, 11}}};
  EXPECT_EQ(pack(tenants, 20, 2 * kUnit).offset[2], Bytes{0});
}

// The third lives with the second, which lies on the first; the fourth makes the slab so large that
// no other order is looked for.
TEST(Pack, AGapOfJustTheSizeIsFilled) {
  const std::vector<Tenant> tenants{
      {kUnit, {0, 30}}, {kUnit, {20, 49}}, {kUnit, {40, 60}}, {10 * kUnit, {70, 71}}};
  EXPECT_EQ(pack(tenants, 80, kTight).offset,
            (std::vector<Bytes>{Bytes{0}, kUnit, Bytes{0}, Bytes{0}}));
}

TEST(Pack, UntouchedBytesWithinTheBudgetAreBest) {
  const std::vector<Tenant> tenants{{kUnit, {0, 1}}, {kUnit, {2, 3}}};
  EXPECT_EQ(pack(tenants, 4, 2 * kUnit).slab, 2 * kUnit);
  EXPECT_EQ(pack(tenants, 4, kUnit).slab, kUnit);
}

TEST(Pack, ABudgetThatCannotBeKeptGivesTheTightestPacking) {
  const std::vector<Tenant> tenants{{kUnit, {0, 3}}, {kUnit, {0, 3}}, {kUnit, {4, 5}}};
  EXPECT_EQ(pack(tenants, 6, kUnit).slab, 2 * kUnit);
}

// In units; the step has 12 positions.
Packing packed(std::vector<Tenant> tenants, std::int64_t budget) {
  for (Tenant& tenant : tenants) tenant.size = tenant.size.value * kUnit;
  return pack(tenants, 12, budget * kUnit);
}

// The largest lies at 0, the one of nodes 0 to 2 too: 4 nodes from it around the end of the step.
// From 0 the last would be 1 node from the second, from 3 on it is 3 nodes from the first alone.
TEST(Pack, OfSeveralTenantsOfARangeTheNearestCounts) {
  const Packing packing = packed({{{2}, {11, 11}}, {{3}, {0, 2}}, {{4}, {8, 8}}}, 5);
  EXPECT_EQ(packing.offset, (std::vector<Bytes>{3 * kUnit, Bytes{0}, Bytes{0}}));
}

// The two of node 7 lie side by side, 0 to 4 and 4 to 7; the third takes 0 to 2, 4 nodes from the
// first. Of the last, at node 0, the third would be 1 node away, the first is 5 nodes away: it
// takes 2 to 4, where the second begins only behind it.
TEST(Pack, WhoBeginsWhereARangeEndsHasNoBytesOfIt) {
  const Packing packing =
      packed({{{4}, {7, 7}}, {{3}, {7, 10}}, {{2}, {11, 11}}, {{2}, {0, 0}}}, 7);
  EXPECT_EQ(packing.offset, (std::vector<Bytes>{Bytes{0}, 4 * kUnit, Bytes{0}, 2 * kUnit}));
}

// By size two of 4 that meet at nodes 4 and 8 lie at 0 and 4 and push the one of 1 to 8; placed
// first, it fits below what it meets.
TEST(Pack, WhoSticksOutAtTheTopIsPlacedFirstInTheNextAttempt) {
  EXPECT_EQ(packed({{{1}, {4, 5}}, {{4}, {8, 11}}, {{4}, {3, 4}}, {{4}, {5, 8}}}, 0).slab,
            8 * kUnit);
}

TEST(Pack, TheBestAttemptIsKeptAndNotTheLast) {
  EXPECT_EQ(packed({{{3}, {4, 4}}, {{3}, {1, 1}}, {{2}, {0, 3}}, {{1}, {3, 6}}}, 0).slab,
            5 * kUnit);
}

// At node 8 those of 3, 3 and 1 are alive, 7 in all, which only an order other than by size keeps.
TEST(Pack, TenantsAreTriedInOtherOrdersThanBySize) {
  const std::vector<Tenant> tenants{
      {{4}, {4, 5}}, {{3}, {7, 9}}, {{1}, {5, 6}}, {{1}, {6, 8}}, {{3}, {6, 8}}};
  EXPECT_EQ(packed(tenants, 0).slab, 7 * kUnit);
}

TEST(Pack, UnusedTenantsTakeNothing) {
  const std::vector<Tenant> tenants{{kUnit, {}}, {kUnit, {0, 0}}};
  EXPECT_EQ(pack(tenants, 1, kTight).slab, kUnit);
  EXPECT_EQ(pack({}, 0, kTight).slab, Bytes{0});
}

}  // namespace
}  // namespace zplan
