#include "planner/validate/measured.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>

#include "planner/core/error.h"

namespace zplan {
namespace {

Measured read(const std::string& word) {
  Measured measured;
  measured.add(word);
  return measured;
}

std::string refusal(const std::string& word) {
  try {
    read(word);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kBadInput);
    return error.what();
  }
  return "";
}

TEST(Measured, EveryUnitIsReadInEverySpelling) {
  for (const SpeedUnit& row : speed_units()) {
    for (const double number : {0.125, 1.0, 38.5, 99.0}) {
      std::string upper;
      for (const char c : row.unit) upper += static_cast<char>(std::toupper(c));
      for (const std::string& word :
           {fmt::format("{}{}", number, row.unit), fmt::format("{} {}", number, row.unit),
            fmt::format("{}{}", number, upper)}) {
        const Measured measured = read(word);
        ASSERT_TRUE(measured.speed) << word;
        EXPECT_EQ(measured.speed->kind, row.kind) << word;
        EXPECT_DOUBLE_EQ(measured.speed->value, number * row.factor) << word;
        EXPECT_EQ(measured.speed->text, word);
        EXPECT_FALSE(measured.size);
      }
    }
  }
}

TEST(Measured, RatesMayBeOfOneGpu) {
  EXPECT_EQ(read("412TFLOP/s/GPU").speed->kind, MeasuredKind::kModelFlops);
  EXPECT_EQ(read("412TFLOP/s").speed->kind, MeasuredKind::kModelFlops);
  EXPECT_EQ(read("9.5ktok/s/gpu").speed->kind, MeasuredKind::kTokensPerDevice);
  EXPECT_EQ(read("9.5ktok/s").speed->kind, MeasuredKind::kTokens);
  EXPECT_NE(refusal("5.2s/gpu"), "");
  EXPECT_NE(refusal("38%MFU/gpu"), "");
}

TEST(Measured, SizesSayWhatTheyWereReadOf) {
  EXPECT_EQ(read("61GiB").size->size, Bytes{61LL << 30});
  EXPECT_EQ(read("61 GiB").size->reading, MemoryReading::kDevice);
  EXPECT_EQ(read("61GiB:nvidia-smi").size->reading, MemoryReading::kDevice);
  EXPECT_EQ(read("61GB:reserved").size->reading, MemoryReading::kReserved);
  EXPECT_EQ(read("61.5GiB:allocated").size->reading, MemoryReading::kAllocated);
  EXPECT_FALSE(read("61GiB").speed);
}

TEST(Measured, HostileWordsAreRefusedInOneLine) {
  for (const char* word : {"",         " ",           "5.2",
                           "s",        "-5s",         "+5s",
                           "0s",       "0GiB",        "nans",
                           "infs",     "1e999s",      "1e-999s",
                           "5,2s",     "9,500tok/s",  "5.2 s s",
                           "5..2s",    "0x5s",        "61gib",
                           "61GiB:",   "61GiB:other", "61GiB:reserved:reserved",
                           "38%",      "38%HFU",      "101%MFU",
                           "412TFLOP", "1e30s",       "5s\n",
                           "5s;",      "5.2sec",      "5.2s 61GiB",
                           "plan.json"}) {
    const std::string message = refusal(word);
    EXPECT_TRUE(message.starts_with("--measured: expected ")) << word << ": " << message;
    EXPECT_EQ(message.find('\n'), std::string::npos) << word;
  }
  EXPECT_NE(refusal("5.2").find("has no unit"), std::string::npos);
  EXPECT_NE(refusal("38%").find("%MFU"), std::string::npos);
  EXPECT_NE(refusal("38MFU").find("did you mean \"%MFU\"?"), std::string::npos);
  EXPECT_NE(refusal("412TFLOP").find("did you mean \"TFLOP/s\"?"), std::string::npos);
  for (const char* word : {"0s", "-5s", "0GiB", "-1GiB", "0%MFU"})
    EXPECT_EQ(refusal(word),
              fmt::format("--measured: expected a number above zero, got \"{}\"", word));
  EXPECT_EQ(refusal("61GiB:nvidia_smi"),
            "--measured: expected 61GiB as nvidia-smi shows it, or 61GiB:reserved or "
            "61GiB:allocated as PyTorch's allocator says, got \"61GiB:nvidia_smi\"; did you mean "
            "\"61GiB:nvidia-smi\"?");
  EXPECT_NE(refusal("61GiB:peak").find("61GiB:reserved or 61GiB:allocated"), std::string::npos);
}

TEST(Measured, ATimeAndASizeStandTogetherAndTwoOfOneKindDoNot) {
  Measured measured;
  measured.add("5.2s");
  measured.add("61GiB");
  EXPECT_TRUE(measured.speed && measured.size);
  EXPECT_THROW(measured.add("38%MFU"), Error);
  EXPECT_THROW(measured.add("60GiB"), Error);
  EXPECT_TRUE(Measured{}.is_empty());
}

// 8 devices, a step of 2 s: of every rate the same step comes back.
TEST(Measured, ARateAsPredictedIsThePredictedStep) {
  const Throughput predicted{.tokens_per_second = 1000,
                             .model_tflops_per_gpu = 400,
                             .hardware_tflops_per_gpu = 500,
                             .peak_tflops = 1000,
                             .mfu = 0.4,
                             .hfu = 0.5};
  for (const char* word : {"2s", "2000ms", "400TFLOP/s", "40%MFU", "1000tok/s", "125tok/s/gpu"})
    EXPECT_DOUBLE_EQ(step_of(*read(word).speed, predicted, Seconds{2}, 8).value, 2) << word;
  EXPECT_DOUBLE_EQ(step_of(*read("20%MFU").speed, predicted, Seconds{2}, 8).value, 4);
  EXPECT_THROW(step_of(*read("20%MFU").speed, {}, Seconds{2}, 8), Error);
}

TEST(Measured, NoStepBeatsTheProductsAtThePeakOrIsManyTimesThePrediction) {
  Throughput predicted;
  predicted.hfu = 0.5;
  const MeasuredSpeed speed = *read("2s").speed;
  const auto check = [&](double step) { check_step(speed, Seconds{step}, predicted, Seconds{2}); };
  EXPECT_NO_THROW(check(1));
  EXPECT_THROW(check(0.999), Error);
  EXPECT_NO_THROW(check(40));
  EXPECT_THROW(check(40.1), Error);
}

}  // namespace
}  // namespace zplan
