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
