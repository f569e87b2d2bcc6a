#include "planner/search/family_words.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "planner/core/error.h"
#include "planner/search/search.h"

namespace zplan {
namespace {

using ::testing::HasSubstr;

bool allows(const FamilyWords& words, const Plan& plan) {
  const auto all = [&](const std::vector<std::string>& typed, auto make) {
    return std::all_of(typed.begin(), typed.end(),
                       [&](const std::string& one) { return make(one).allows(plan); });
  };
  return all(words.only, Constraint::only) && all(words.never, Constraint::never);
}

// What is printed comes back: of all plans just those of the family.
TEST(FamilyWords, OfAPrintedFamilyAllowItsPlansAndNoOthers) {
  const ModelConfig model = load_model("tiny");
  const std::vector<Plan> plans = enumerate(model, load_cluster("workstation"), Pins{});
  std::vector<Family> families;
  for (const Plan& plan : plans) families.push_back(family_of(plan));
  std::vector<Family> distinct = families;
  std::sort(distinct.begin(), distinct.end());
  distinct.erase(std::unique(distinct.begin(), distinct.end()), distinct.end());
  ASSERT_GT(distinct.size(), 20U);
  for (const Family& family : distinct) {
    const FamilyWords words = parse_family(name(family));
    for (std::size_t i = 0; i < plans.size(); ++i)
      ASSERT_EQ(allows(words, plans[i]), families[i] == family)
          << name(family) << " against " << name(families[i]);
  }
}

TEST(FamilyWords, ShortWordsLeaveTheRestOpen) {
  Plan plan;
  plan.parallel.pp = 2;
  plan.parallel.tp = 2;
  plan.placement.optimizer = Tier::kCpu;
  EXPECT_TRUE(allows(parse_family("pipeline"), plan));
  EXPECT_TRUE(allows(parse_family("offload tensor"), plan));
  EXPECT_TRUE(allows(parse_family("PP tp"), plan));
  EXPECT_FALSE(allows(parse_family("nvme"), plan));
  EXPECT_FALSE(allows(parse_family("gpu"), plan));
  EXPECT_TRUE(allows(parse_family("gpu+cpu"), plan));
  EXPECT_FALSE(allows(parse_family("zero2"), plan));
  plan.zero_stage = 2;
  EXPECT_TRUE(allows(parse_family("ZeRO-2"), plan));
  EXPECT_EQ(parse_family("ZeRO-0 gpu lean").recipes, std::vector<std::string>{"lean"});
}

TEST(FamilyWords, UnknownWordsNameTheNearest) {
  for (const auto& [typed, near] : {std::pair("pipelin", "pipeline"),
                                    {"ZeRO-4", "ZeRO-"},
                                    {"gpu+cup", "gpu"},
                                    {"", "FAMILY"}}) {
    try {
      parse_family(typed);
      ADD_FAILURE() << typed;
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), HasSubstr(near));
    }
  }
}

}  // namespace
}  // namespace zplan
