#include "planner/plan/choices.h"

#include <gtest/gtest.h>

#include <set>

#include "planner/plan/pins.h"
#include "tests/support/decision_levels.h"

namespace zplan {
namespace {

using testing_support::levels_of;

Plan named_plan() {
  Plan plan;
  plan.model = "gpt2";
  plan.hardware = "dgx2";
  return plan;
}

std::string group_of(const Decision& row) {
  return std::string(row.pointer.substr(0, row.pointer.find('/', 1)));
}

TEST(Choices, EachDecisionHasOneRowAndGroupsStayTogether) {
  std::set<std::string_view> pointers;
  std::set<std::string> groups;
  std::string last;
  for (const Decision& row : kChoices) {
    EXPECT_TRUE(pointers.insert(row.pointer).second) << row.pointer;
    EXPECT_EQ(&decision(row.pointer), &row);
    if (group_of(row) == last) continue;
    last = group_of(row);
    EXPECT_TRUE(groups.insert(last).second) << row.pointer;
  }
}

TEST(Choices, OptionsAreDistinctAndExplained) {
  std::set<std::string_view> names;
  for (const Decision& row : kChoices) {
    const DecisionOption& option = row.option;
    if (option.name.empty()) continue;
    EXPECT_TRUE(option.name.starts_with("--")) << row.pointer;
    EXPECT_TRUE(names.insert(option.name).second) << option.name;
    EXPECT_FALSE(option.help.empty()) << option.name;
    EXPECT_EQ(option.back.empty(), option.back_help.empty()) << option.name;
    if (!option.back.empty()) {
      EXPECT_TRUE(names.insert(option.back).second) << option.back;
    }
  }
}

TEST(Choices, ARowReadsAndWritesItsDecisionAlone) {
  for (const Decision& row : kChoices) {
    for (const Setting& level : levels_of(row)) {
      Plan plan = named_plan();
      row.field.set(plan, level);
      EXPECT_EQ(row.field.get(plan), level) << row.pointer;
      EXPECT_EQ(row.is_plain(plan), level == row.plain()) << row.pointer;
      for (const Decision& other : kChoices) {
        if (&other == &row) continue;
        EXPECT_EQ(other.field.get(plan), other.field.get(named_plan())) << other.pointer;
      }
    }
  }
}

TEST(Choices, PlanFilesKeepEveryLevel) {
  for (const Decision& row : kChoices) {
    for (const Setting& level : levels_of(row)) {
      Plan plan = named_plan();
      if (level != Setting(std::string())) row.field.set(plan, level);
      EXPECT_EQ(plan_from_json(to_json(plan), "p.json"), plan) << row.pointer;
    }
  }
}

TEST(Choices, LegalityHoldsEveryCountToItsRange) {
  for (const Decision& row : kChoices) {
    if (!std::holds_alternative<std::int64_t>(row.plain())) continue;
    for (const std::int64_t value : {row.range.min - 1, row.range.max + 1}) {
      Plan plan = named_plan();
      row.field.set(plan, value);
      EXPECT_TRUE(illegal(plan, 12).has_value()) << row.pointer << " " << value;
    }
  }
}

TEST(Pins, AreWhatTheyWereSetToAndNothingElse) {
  Pins pins;
  pins.set("/parallel/tp", 2);
  pins.set("/placement/params", Tier::kCpu);
  pins.set("/gather/unit", Gather::kLayer);
  EXPECT_TRUE(pins.has("/parallel/tp"));
  EXPECT_FALSE(pins.has("/parallel/dp"));
  EXPECT_EQ(pins.get<std::int32_t>("/parallel/tp", 7), 2);
  EXPECT_EQ(pins.get<std::int32_t>("/parallel/dp", 7), 7);
  Plan expected = named_plan(), plan = named_plan();
  expected.parallel.tp = 2;
  expected.placement.params = Tier::kCpu;
  expected.gather = Gather::kLayer;
  pins.apply(plan);
  EXPECT_EQ(plan, expected);
}

}  // namespace
}  // namespace zplan
