#include "hwprofiles/stack.h"

#include <gtest/gtest.h>

#include <set>

#include "tests/support/error_message.h"

namespace zplan {
namespace {

using testing_support::message_of;

constexpr const char* kSmall = R"({"schema": "zplan.stack/1", "name": "x", "description": "d",
"software": ["X"], "fused": false, "plan": {"/clip": false}, "rates": {
"gemm": {"value": 1.5, "source": "fitted", "ref": "g", "uncertainty": 0.1},
"host_step": {"value": "4 ms", "source": "assumed", "ref": "r"}}})";

TEST(Stack, ReadsRatesWithTheirSourcesAndLeavesTheOthersPlain) {
  const StackProfile stack = parse_stack(kSmall, "x.json");
  EXPECT_EQ(stack.rates.gemm, 1.5);
  EXPECT_EQ(stack.rates.host_step, 0.004);
  EXPECT_EQ(stack.rates.loss, 1.0);
  ASSERT_EQ(stack.values.size(), 2u);
  EXPECT_EQ(stack.values[0].uncertainty, 0.1);
  EXPECT_EQ(stack.choices, (std::vector<std::pair<std::string, std::string>>{{"/clip", "false"}}));
}

// But for what is a fact of the software.
TEST(Stack, OwnStackIsPlain) {
  const StackProfile own = load_stack("own");
  for (const StackRate& rate : stack_rates())
    EXPECT_TRUE(rate.name.starts_with("vectors_") || rate.name == "fp8_casts" ||
                own.rates.*rate.member == StackRates{}.*rate.member)
        << rate.name;
}

TEST(Stack, EveryRateStandsOnceAndItsPlainValueIsInRange) {
  std::set<std::string_view> names;
  for (const StackRate& rate : stack_rates()) {
    EXPECT_TRUE(names.insert(rate.name).second) << rate.name;
    EXPECT_LE(rate.least, StackRates{}.*rate.member) << rate.name;
    EXPECT_GE(rate.most, StackRates{}.*rate.member) << rate.name;
  }
  constexpr std::size_t kFacts = sizeof(double);  // of modules and their sums, with padding
  EXPECT_EQ(names.size() * sizeof(double) + kFacts, sizeof(StackRates));
}

TEST(Stack, RefusesFittedValuesWithoutUncertaintyAndUnknownNames) {
  std::string text = kSmall;
  text.replace(text.find(", \"uncertainty\": 0.1"), 20, "");
  EXPECT_EQ(message_of([&] { parse_stack(text, "x.json"); }),
            "x.json:3:9: /rates/gemm: expected an \"uncertainty\" beside a fitted value, got none");
  EXPECT_EQ(message_of([] { load_stack("nemo2023"); }),
            "--for: expected a software, as in --for megatron (zplan software lists them), got "
            "\"nemo2023\"; did you mean \"nemo2024\"?");
}

TEST(Stack, ANameIsItsNewestProfileForTheDevicesAndAYearAnOlderOne) {
  EXPECT_EQ(load_stack("megatron").name, "megatron_core");
  EXPECT_EQ(load_stack("Megatron", 70).name, "megatron2022");
  EXPECT_EQ(load_stack("megatron@2020").name, "megatron2020");
  EXPECT_EQ(load_stack("deepspeed", 70).name, "deepspeed_infinity");
  EXPECT_EQ(load_stack("nemo").name, "megatron_bridge");
  EXPECT_EQ(load_stack("megatron2020").name, "megatron2020");
  EXPECT_EQ(load_stack("accelerate").target, "accelerate");
  EXPECT_EQ(load_stack("hf").target, "hf");
  EXPECT_EQ(message_of([] { load_stack("megatron@2021"); }),
            "--for megatron@2021: expected one of the years 2020, 2022, 2025, as in --for "
            "megatron@2020");
  EXPECT_EQ(
      message_of([] { load_stack("torchtitan", 70); }),
      "--for torchtitan: no profile of torchtitan is for these devices; expected a year, 2025, "
      "as in --for torchtitan@2025, to take its rates all the same");
}

TEST(Stack, HasRatesByClassOfDevices) {
  std::string text = kSmall;
  text.replace(text.find("\"host_step\""), 0,
               "\"gemm@80\": {\"value\": 1.2, \"source\": \"assumed\", \"ref\": \"r\"},\n");
  const StackProfile stack = parse_stack(text, "x.json");
  EXPECT_EQ(stack.rates_on(70).gemm, 1.5);
  EXPECT_EQ(stack.rates_on(80).gemm, 1.2);
  EXPECT_EQ(stack.rates_on(90).gemm, 1.2) << "until there is one of a later class";
  EXPECT_EQ(stack.rates_on(90).host_step, 0.004);
  EXPECT_EQ(stack.value_of("gemm", 90)->capability, 80);
  EXPECT_EQ(stack.value_of("loss", 90), nullptr);
  text.replace(text.find("gemm@80"), 7, "gemm@81");
  EXPECT_NE(message_of([&] { parse_stack(text, "x.json"); }).find("gemm@81"), std::string::npos);
}

TEST(Stack, SharesOfSelectiveRecomputationAddUp) {
  std::string text = kSmall;
  text.replace(text.find("\"plan\""), 0,
               "\"selective\": [{\"layers\": 0.5, \"recompute\": \"full\", \"ref\": \"r\"}],\n");
  EXPECT_EQ(message_of([&] { parse_stack(text, "x.json"); }),
            "x.json:2:49: /selective: expected shares of layers that add up to 1, got an array");
}

}  // namespace
}  // namespace zplan
