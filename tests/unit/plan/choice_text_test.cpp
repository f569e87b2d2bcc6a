#include "planner/plan/choice_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "planner/core/error.h"

namespace zplan {
namespace {

using testing::HasSubstr;

std::string complaint(const char* pointer, const char* text) {
  Plan plan;
  try {
    set_choice(plan, pointer, text);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(ChoiceText, WordsBecomeValuesOfTheDecisionsType) {
  Plan plan;
  set_choice(plan, "/gather/unit", "layer");
  set_choice(plan, "/gather/prefetch", "3");
  set_choice(plan, "/dropout", "true");
  set_choice(plan, "/recompute", "full");
  set_choice(plan, "/slack", "0.5");
  set_choice(plan, "/kernel_set", "cpu.f64");
  EXPECT_EQ(plan.gather, Gather::kLayer);
  EXPECT_EQ(plan.prefetch, 3);
  EXPECT_TRUE(plan.dropout);
  EXPECT_TRUE(plan.all_full());
  EXPECT_EQ(plan.slack, 0.5);
  EXPECT_EQ(plan.kernel_set, "cpu.f64");
}

TEST(ChoiceText, PinsAreSetByTheSameWords) {
  Pins pins;
  pin_choice(pins, "/placement/params", "nvme");
  EXPECT_TRUE(pins.has("/placement/params"));
  EXPECT_FALSE(pins.has("/placement/grads"));
  EXPECT_EQ(pins.values().placement.params, Tier::kNvme);
  EXPECT_THROW(pin_choice(pins, "/placement/grads", "tape"), Error);
}

TEST(ChoiceText, ANumberOfLayersOrTilesIsPinnedWhereItIsSaid) {
  const auto tuned = [](const char* words) {
    Pins pins;
    pin_choice(pins, "/gather/unit", words);
    return pins.tunes_units;
  };
  for (const char* words : {"layer", "operator"}) EXPECT_TRUE(tuned(words)) << words;
  for (const char* words : {"layers:1", "tiles:1", "layers:2", "tiles:4", "owned"})
    EXPECT_FALSE(tuned(words)) << words;
}

TEST(ChoiceText, WhatIsNoValueIsSaid) {
  EXPECT_THAT(complaint("/gather/unti", "layer"), HasSubstr("\"/gather/unit\""));
  for (const char* words : {"block", "layers:0", "layers:17", "tiles:", "tiles:2x", "owned:2"})
    EXPECT_THAT(complaint("/gather/unit", words), HasSubstr("operator, layer, layers:N"));
  EXPECT_THAT(complaint("/gather/prefetch", "3x"), HasSubstr("an integer from"));
  EXPECT_THAT(complaint("/dropout", "yes"), HasSubstr("true or false"));
  for (const char* words : {"fc1@disk", "fc1@", "@cpu", "fc1+fc1@cpu", "norm@cpu+norm@nvme"})
    EXPECT_THAT(complaint("/recompute", words), HasSubstr("or operators")) << words;
  EXPECT_THAT(complaint("/recompute", "some"), HasSubstr("none, selective, full or operators"));
  EXPECT_THAT(complaint("/parallel/stage_layers", "2,2"), HasSubstr("depends on the model"));
}

}  // namespace
}  // namespace zplan
