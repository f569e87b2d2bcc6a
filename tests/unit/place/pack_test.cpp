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

TEST(Pack, UnusedTenantsTakeNothing) {
  const std::vector<Tenant> tenants{{kUnit, {}}, {kUnit, {0, 0}}};
  EXPECT_EQ(pack(tenants, 1, kTight).slab, kUnit);
  EXPECT_EQ(pack({}, 0, kTight).slab, Bytes{0});
}

}  // namespace
}  // namespace zplan
