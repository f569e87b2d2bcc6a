#include "hwprofiles/measured_curves.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "hwprofiles/embedded_profiles.h"
#include "planner/core/error.h"

namespace zplan {
namespace {

using testing::HasSubstr;

// A built-in profile with such a member.
std::string with_member(std::string_view base, const std::string& entries) {
  for (const EmbeddedFile& file : embedded_profiles()) {
    if (!file.name.ends_with("/" + std::string(base))) continue;
    std::string text(file.text);
    return text.insert(text.find_last_of('}'), ", \"collectives\": [" + entries + "]");
  }
  return "";
}

std::string entry(const std::string& op, int ranks, int nodes, const std::string& points) {
  return R"({"op": ")" + op + R"(", "ranks": )" + std::to_string(ranks) + R"(, "nodes": )" +
         std::to_string(nodes) + R"(, "times": {"value": [)" + points +
         R"(], "source": "measured", "ref": "a test"}})";
}

HwProfile dgx_h100(const std::string& entries) {
  return parse_hw_profile(with_member("dgx-h100.json", entries), "mine.json");
}

std::string failure(const std::string& base, const std::string& entries) {
  try {
    parse_hw_profile(with_member(base, entries), "mine.json");
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

constexpr const char* kPoints = R"(["1 KiB", "10 us"], ["1 MiB", "40 us"])";

TEST(MeasuredCurves, TakeThePlaceOfTheTablesCurveOfTheSameGroupAlone) {
  const HwProfile plain = dgx_h100(""), mine = dgx_h100(entry("all_reduce", 8, 1, kPoints));
  const auto& before = plain.device.collectives->curves;
  const auto& now = mine.device.collectives->curves;
  ASSERT_EQ(before.size(), now.size());
  for (const auto& [group, curve] : now) {
    if (group == MeasuredGroup{MeasuredCollective::kAllReduce, 8}) {
      EXPECT_EQ(curve.size(), 2u);
      EXPECT_NEAR(curve.at(32 << 10).value, 20e-6, 1e-12) << "half way in logarithms";
    } else {
      EXPECT_EQ(curve.at(1 << 20).value, before.at(group).at(1 << 20).value);
    }
  }
}

TEST(MeasuredCurves, SayWhereTheyComeFrom) {
  const HwProfile mine = dgx_h100(entry("broadcast", 16, 2, kPoints));
  const ValueSource& last = mine.sources.back();
  EXPECT_EQ(last.pointer, "/collectives/0/times");
  EXPECT_EQ(last.value, "2 sizes, 1.00 KiB to 1.00 MiB");
  EXPECT_EQ(last.source, "measured");
  EXPECT_EQ(last.ref, "a test");
}

TEST(MeasuredCurves, OverNodesGroupsWithAsManyRanksInEachAreNearestInNodes) {
  const HwProfile mine = dgx_h100(
      entry("all_reduce", 16, 2, kPoints) + "," + entry("all_reduce", 64, 8, kPoints) + "," +
      entry("all_reduce", 2, 2, kPoints) + "," + entry("all_gather", 32, 4, kPoints));
  const CollectiveProfile& profile = *mine.device.collectives;
  EXPECT_TRUE(profile.reaches_over_nodes());
  const auto nearest = [&](int ranks, int nodes) {
    MeasuredGroup group{MeasuredCollective::kAllReduce, ranks, nodes};
    return profile.nearest(group) == nullptr ? 0 : group.ranks;
  };
  EXPECT_EQ(nearest(16, 2), 16);
  EXPECT_EQ(nearest(24, 3), 16);
  EXPECT_EQ(nearest(40, 5), 64);
  EXPECT_EQ(nearest(800, 100), 64);
  EXPECT_EQ(nearest(4, 4), 2);
  EXPECT_EQ(nearest(8, 4), 0) << "two in each node were not measured";
  EXPECT_EQ(nearest(8, 1), 8) << "of the table";
  EXPECT_EQ(nearest(2, 1), 2) << "of the table, not that over nodes";
}

TEST(MeasuredCurves, WhatCannotBeIsRefusedWithItsPlace) {
  const auto says = [](const std::string& entries) { return failure("dgx-h100.json", entries); };
  EXPECT_THAT(says(entry("all_reduc", 8, 1, kPoints)), HasSubstr("did you mean \"all_reduce\"?"));
  EXPECT_THAT(
      says(entry("all_reduce", 16, 1, kPoints)),
      HasSubstr("/collectives/0/ranks: expected as many ranks in each of 1 nodes, at most 8"));
  EXPECT_THAT(says(entry("all_reduce", 9, 2, kPoints)), HasSubstr("as many ranks in each"));
  EXPECT_THAT(says(entry("all_reduce", 1, 1, kPoints)), HasSubstr("from 2 to"));
  EXPECT_THAT(says(entry("all_reduce", 8, 1, "")), HasSubstr("at least one size"));
  EXPECT_THAT(says(entry("all_reduce", 8, 1, R"(["2 B", "1 us"], ["2 B", "2 us"])")),
              HasSubstr("/collectives/0/times/value/1/0: expected a size above the one before"));
  EXPECT_THAT(says(entry("all_reduce", 8, 1, R"(["2 B", "0 us"])")), HasSubstr("above zero"));
  EXPECT_THAT(says(entry("all_reduce", 8, 1, R"(["2 B"])")), HasSubstr("a size and a time"));
  EXPECT_THAT(says(entry("reduce", 8, 1, kPoints) + "," + entry("reduce", 8, 1, kPoints)),
              HasSubstr("/collectives/1: expected one entry of reduce of 8 ranks on 1 nodes"));
  EXPECT_THAT(failure("workstation.json", entry("all_reduce", 2, 1, kPoints)),
              HasSubstr("expected no collectives of devices that meet in host memory, cpu."));
}

}  // namespace
}  // namespace zplan
