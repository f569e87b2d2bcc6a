#include "planner/plan/plan_question.h"

#include <gtest/gtest.h>

#include "tests/support/decision_levels.h"

namespace zplan {
namespace {

using testing_support::levels_of;

bool is_given(const Decision& row) {
  return row.varied == Varied::kNever || row.varied == Varied::kRecipe;
}

TEST(PlanQuestion, EachDecisionThatNoSearchVariesIsAsThePlanHasIt) {
  for (const Decision& row : kChoices) {
    if (row.pointer == "/model" || row.pointer == "/hardware") continue;
    for (const Setting& level : levels_of(row)) {
      Plan plan;
      row.field.set(plan, level);
      Plan other;
      question_of(plan).apply(other);
      if (is_given(row)) {
        EXPECT_EQ(row.field.get(other), level) << row.pointer;
      } else {
        EXPECT_TRUE(row.is_plain(other)) << row.pointer;
      }
    }
  }
}

TEST(PlanQuestion, WhatChangesTheTrainingIsPinnedWherePlain) {
  const Pins pins = question_of(Plan{});
  EXPECT_TRUE(pins.has("/train/what"));
  EXPECT_TRUE(pins.has("/optimizer/kind"));
  EXPECT_TRUE(pins.has("/precision/param"));
  EXPECT_TRUE(pins.has("/dropout"));
  EXPECT_FALSE(pins.has("/parallel/cp"));  // which would let GPUs stand idle
  EXPECT_FALSE(pins.has("/zero_stage"));
}

}  // namespace
}  // namespace zplan
