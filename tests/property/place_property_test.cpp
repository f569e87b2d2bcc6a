// Properties of pack and of placement over random tenants: nobody alive at the same time shares a
// byte, the slab holds the live peak and everything placed, and it is seldom much larger.
#include <gtest/gtest.h>
//
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

#include "planner/place/pack.h"

namespace zplan {
namespace {

constexpr NodeIndex kPositions = 60;

Tenant draw_tenant() {
  const auto first = *rc::gen::inRange<NodeIndex>(0, kPositions);
  const auto length = *rc::gen::weightedOneOf<NodeIndex>(
      {{6, rc::gen::inRange<NodeIndex>(0, 6)}, {1, rc::gen::inRange<NodeIndex>(0, kPositions)}});
  const auto units = *rc::gen::weightedOneOf<std::int64_t>(
      {{1, rc::gen::just<std::int64_t>(1)}, {3, rc::gen::inRange<std::int64_t>(1, 40)}});
  return {kBufferAlignment * units, {first, std::min(first + length, kPositions - 1)}};
}

std::vector<Tenant> draw_tenants(int most) {
  std::vector<Tenant> tenants(static_cast<std::size_t>(*rc::gen::inRange(0, most)));
  for (Tenant& tenant : tenants) tenant = draw_tenant();
  return tenants;
}

Bytes live_peak(const std::vector<Tenant>& tenants) {
  Bytes peak{0};
  for (NodeIndex at = 0; at < kPositions; ++at) {
    Bytes alive{0};
    for (const Tenant& t : tenants)
      if (t.life.overlaps({at, at})) alive += t.size;
    peak = std::max(peak, alive);
  }
  return peak;
}

Bytes with_slack(Bytes peak, int percent) {
  return kBufferAlignment * (peak.value * (100 + percent) / 100 / kBufferAlignment.value);
}

void check_packing(const std::vector<Tenant>& tenants, const Packing& packing) {
  RC_ASSERT(packing.offset.size() == tenants.size());
  Bytes top{0};
  for (std::size_t i = 0; i < tenants.size(); ++i) {
    const Bytes begin = packing.offset[i], end = begin + tenants[i].size;
    RC_ASSERT(begin.value >= 0 && begin.value % kBufferAlignment.value == 0);
    top = std::max(top, end);
    for (std::size_t j = 0; j < i; ++j) {
      const bool apart = packing.offset[j] + tenants[j].size <= begin || end <= packing.offset[j];
      RC_ASSERT(apart || !tenants[i].life.overlaps(tenants[j].life));
    }
  }
  RC_ASSERT(packing.slab == top);
  RC_ASSERT(packing.slab >= live_peak(tenants));
}

RC_GTEST_PROP(Pack, NoTwoTenantsAliveAtTheSameTimeShareAByte, ()) {
  const auto tenants = draw_tenants(60);
  const int percent = *rc::gen::element(0, 5, 20, 100);
  check_packing(tenants, pack(tenants, kPositions, with_slack(live_peak(tenants), percent)));
  check_packing(tenants, pack(tenants, kPositions, Bytes{0}));
}

RC_GTEST_PROP(Pack, IsAFunctionOfItsArguments, ()) {
  const auto tenants = draw_tenants(30);
  const Bytes budget = with_slack(live_peak(tenants), 5);
  RC_ASSERT(pack(tenants, kPositions, budget).offset == pack(tenants, kPositions, budget).offset);
}

// The goal of planner/place/pack.h, over a fixed set of instances.
TEST(Pack, IsOnAverageWithinFivePercentOfTheLivePeak) {
  constexpr int kInstances = 500;
  std::mt19937 random(1);  // its numbers are the same everywhere
  const auto below = [&](std::uint32_t n) { return static_cast<std::uint32_t>(random() % n); };
  double sum = 0, worst = 0;
  for (int i = 0; i < kInstances; ++i) {
    std::vector<Tenant> tenants(10 + below(60));
    for (Tenant& tenant : tenants) {
      const NodeIndex first = below(kPositions);
      const NodeIndex length = below(7) == 0 ? below(kPositions) : below(6);
      tenant.size = kBufferAlignment * (below(4) == 0 ? 1 : 1 + below(40));
      tenant.life = {first, std::min(first + length, kPositions - 1)};
    }
    const Bytes peak = live_peak(tenants);
    const Packing packing = pack(tenants, kPositions, peak);
    const double ratio = static_cast<double>(packing.slab.value) / static_cast<double>(peak.value);
    sum += ratio;
    worst = std::max(worst, ratio);
  }
  EXPECT_LE(sum / kInstances, 1.05);
  EXPECT_LE(worst, 1.25);
}

RC_GTEST_PROP(Pack, KeepsTheBudgetWhereTheTightestPackingDoes, ()) {
  const auto tenants = draw_tenants(60);
  const Packing tight = pack(tenants, kPositions, Bytes{0});
  const Packing spread = pack(tenants, kPositions, tight.slab);
  RC_ASSERT(spread.slab <= tight.slab);
}

}  // namespace
}  // namespace zplan
