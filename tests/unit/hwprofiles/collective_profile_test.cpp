#include "hwprofiles/collective_profile.h"

#include <gtest/gtest.h>

#include <cmath>

namespace zplan {
namespace {

constexpr BytesPerSecond kPcie{32e9};

TEST(CollectiveProfile, ACurveIsStraightBetweenMeasuredSizesInLogarithms) {
  CollectiveCurve curve;
  curve.add(4, {2});
  curve.add(1, {1});
  curve.settle();
  EXPECT_NEAR(curve.at(2).value, std::sqrt(2.0), 1e-12);
  EXPECT_NEAR(curve.at(0.5).value, 1, 1e-12);
  EXPECT_NEAR(curve.at(9).value, 2, 1e-12);
}

TEST(CollectiveProfile, TimesThatFallBecomeTheirMean) {
  CollectiveCurve curve;
  for (const auto& [bytes, time] : {std::pair{1, 1.0}, {2, 8.0}, {4, 2.0}, {8, 9.0}}) {
    curve.add(bytes, {time});
  }
  curve.settle();
  EXPECT_NEAR(curve.at(1).value, 1, 1e-12);
  EXPECT_NEAR(curve.at(2).value, 4, 1e-12);
  EXPECT_NEAR(curve.at(4).value, 4, 1e-12);
  EXPECT_NEAR(curve.at(8).value, 9, 1e-12);
}

TEST(CollectiveProfile, TakesTheNewestRowsOfThoseThatUseTheSwitches) {
  const auto profile = collective_profile("h100_sxm", {.peer = {450e9}, .pcie = kPcie});
  MeasuredGroup group{MeasuredCollective::kAllReduce, 8};
  const CollectiveCurve* curve = profile->nearest(group);
  ASSERT_NE(curve, nullptr);
  EXPECT_EQ(curve->size(), 21u);
  EXPECT_NEAR(curve->at(1 << 29).value, 2111.1e-6, 1e-7) << "fp16 of nccl-2.29.2";
}

TEST(CollectiveProfile, OfOtherGroupSizesTheNearestByRatioCounts) {
  const auto profile = collective_profile("a100_sxm", {.peer = {300e9}, .pcie = kPcie});
  for (const auto& [ranks, found] : {std::pair{2, 2}, {3, 4}, {6, 8}, {16, 8}}) {
    MeasuredGroup group{MeasuredCollective::kAllGather, ranks};
    EXPECT_NE(profile->nearest(group), nullptr);
    EXPECT_EQ(group.ranks, found) << ranks;
  }
}

TEST(CollectiveProfile, ADeviceWithoutATableIsBetweenTheTwoNearestLinksAtItsRate) {
  const auto near = collective_profile("", {.peer = {400e9}, .pcie = kPcie});
  const auto h100 = collective_profile("h100_sxm", {.peer = {450e9}, .pcie = kPcie});
  const auto a100 = collective_profile("a100_sxm", {.peer = {300e9}, .pcie = kPcie});
  const CollectiveConstants &found = near->constants, &h = h100->constants, &a = a100->constants;
  EXPECT_EQ(found.family, "h100_sxm");
  EXPECT_TRUE(near->curves.empty());
  EXPECT_NEAR(found.rates[2].value,
              std::sqrt(h.rates[2].value * 400 / 450 * a.rates[2].value * 400 / 300), 1);
  EXPECT_NEAR(found.base.value, std::sqrt(h.base.value * a.base.value), 1e-12);
  EXPECT_EQ(found.low_base, std::max(h.low_base, a.low_base)) << "the slower of low protocols";
  EXPECT_EQ(found.pair_low_base, std::max(h.pair_low_base, a.pair_low_base));
  EXPECT_NEAR(found.pair_own, std::sqrt(h.pair_own * a.pair_own), 1e-12);
  EXPECT_NEAR(found.nvls.value, h.nvls.value * 400 / 450, 1) << "switches of A100 do not add up";
  EXPECT_EQ(found.nvls_base, h.nvls_base);
}

TEST(CollectiveProfile, ADeviceWithoutATableButWithTheLinkOfAFamilyHasItsConstants) {
  const auto v100 = collective_profile("", {.peer = {150e9}, .pcie = kPcie});
  EXPECT_EQ(v100->constants.family, "v100_sxm");
  EXPECT_EQ(v100->constants.low_base,
            collective_profile("v100_sxm", {.peer = {150e9}, .pcie = kPcie})->constants.low_base);
  EXPECT_EQ(collective_profile("h200_sxm", {.peer = {450e9}, .pcie = kPcie})->constants.family,
            "h100_sxm");
  EXPECT_EQ(collective_profile("", {.peer = {}, .pcie = kPcie})->constants.family,
            "rtx_pro_6000_server");
  EXPECT_EQ(collective_profile("l40s", {.peer = {}, .pcie = kPcie})->constants.family, "l40s");
}

}  // namespace
}  // namespace zplan
