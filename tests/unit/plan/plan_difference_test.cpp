// Decisions of two plans, in words.
#include "planner/plan/plan_difference.h"

#include <gtest/gtest.h>

namespace zplan {
namespace {

TEST(PlanDifference, OfAPlanAndItselfIsNone) {
  EXPECT_TRUE(plan_difference(Plan{}, Plan{}).empty());
}

TEST(PlanDifference, NamesEachDecisionWithBothValues) {
  Plan before, after;
  after.model = "another";
  after.hardware = "another";
  after.parallel.dp = 16;
  after.placement.optimizer = Tier::kNvme;
  after.gather = Gather::of_layers(2);
  after.clip = !before.clip;
  after.stage_layers = {13, 11};
  RecomputeRun run{.mode = Recompute::kFull, .layers = 3};
  after.recompute = {run};
  const std::vector<DecisionChange> changes = plan_difference(before, after);
  const auto text = [&](std::string_view pointer) -> std::string {
    for (const DecisionChange& change : changes)
      if (change.pointer == pointer) return change.before + " -> " + change.after;
    return "";
  };
  EXPECT_EQ(changes.size(), 6u);
  EXPECT_EQ(text("/parallel/dp"), "1 -> 16");
  EXPECT_EQ(text("/placement/optimizer"), "gpu -> nvme");
  EXPECT_EQ(text("/gather/unit"), "operator -> layers:2");
  EXPECT_EQ(text("/parallel/stage_layers"), " -> 13,11");
  EXPECT_EQ(text("/recompute"), "none -> full:3");
}

}  // namespace
}  // namespace zplan
