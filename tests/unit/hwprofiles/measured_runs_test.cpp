#include "hwprofiles/measured_runs.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "hwprofiles/stack.h"
#include "tests/support/error_message.h"

namespace zplan {
namespace {

MeasuredRuns sample() {
  MeasuredRuns runs;
  MeasuredStack stack;
  stack.name = "theirs";
  stack.runs = 3;
  stack.run_sd = 0.071;
  stack.most_devices = 512;
  stack.devices = {"A100-SXM4-80GB"};
  stack.formats = {"bf16", "fp8"};
  stack.fitted = {"gemm", "loss"};
  stack.correlation = {{1, -0.25}, {-0.25, 1}};
  runs.stacks = {stack};
  runs.best = {{"A100-SXM4-80GB", "bf16", "some/run", 0.513}};
  return runs;
}

TEST(MeasuredRuns, AreReadAsTheyAreWritten) {
  const MeasuredRuns read = parse_measured_runs(to_json(sample()), "runs.json");
  EXPECT_EQ(to_json(read), to_json(sample()));
  ASSERT_EQ(read.of_stack("theirs").size(), 1u);
  EXPECT_EQ(read.of_stack("theirs")[0].most_devices, 512);
  EXPECT_EQ(read.of_stack("theirs")[0].correlation[0][1], -0.25);
  EXPECT_TRUE(read.of_stack("ours").empty());
  ASSERT_NE(read.best_of("A100-SXM4-80GB", "bf16"), nullptr);
  EXPECT_EQ(read.best_of("A100-SXM4-80GB", "bf16")->mfu, 0.513);
  EXPECT_EQ(read.best_of("A100-SXM4-80GB", "fp8"), nullptr);
}

TEST(MeasuredRuns, NeedARowOfTheCorrelationPerFittedRate) {
  MeasuredRuns runs = sample();
  runs.stacks[0].correlation.pop_back();
  EXPECT_NE(testing_support::message_of([&] {
              parse_measured_runs(to_json(runs), "runs.json");
            }).find("expected 2 rows, one per fitted rate"),
            std::string::npos);
}

TEST(MeasuredRuns, OfTheCatalogueSpeakOfItsStacksAndRates) {
  const MeasuredRuns runs = load_measured_runs();
  EXPECT_FALSE(runs.stacks.empty());
  EXPECT_FALSE(runs.best.empty());
  for (const MeasuredStack& stack : runs.stacks) {
    const StackProfile profile = load_stack(stack.name);
    for (const std::string& key : stack.fitted) {
      const bool known = std::ranges::any_of(profile.values, [&](const StackValue& value) {
        return rate_key(value.name, value.capability) == key && value.source == "fitted";
      });
      EXPECT_TRUE(known) << stack.name << " " << key;
    }
  }
}

}  // namespace
}  // namespace zplan
