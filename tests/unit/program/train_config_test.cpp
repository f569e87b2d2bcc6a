#include "planner/program/train_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>

#include "planner/core/error.h"

namespace zplan {
namespace {

TrainConfig load(const std::string& text) {
  const std::string path = testing::TempDir() + "train_config_test.json";
  std::ofstream(path) << text;
  return load_train_config(path);
}

std::string refusal(const std::string& text) {
  try {
    load(text);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kBadInput);
    return error.what();
  }
  return "";
}

TEST(TrainConfig, ReadsEveryKey) {
  const TrainConfig c = load(R"({"schema": "zplan.train/1", "learning_rate": 6e-4, "beta1": 0.8,
      "beta2": 0.99, "epsilon": 1e-6, "weight_decay": 0.0, "clip_norm": 0.5, "seed": 42,
      "min_learning_rate": 6e-5, "warmup_steps": 20, "decay_steps": 100,
      "initial_loss_scale": 1024, "loss_scale_interval": 50})");
  EXPECT_EQ(c.learning_rate, 6e-4);
  EXPECT_EQ(c.beta1, 0.8);
  EXPECT_EQ(c.beta2, 0.99);
  EXPECT_EQ(c.epsilon, 1e-6);
  EXPECT_EQ(c.weight_decay, 0.0);
  EXPECT_EQ(c.clip_norm, 0.5);
  EXPECT_EQ(c.seed, 42u);
  EXPECT_EQ(c.min_learning_rate, 6e-5);
  EXPECT_EQ(c.warmup_steps, 20);
  EXPECT_EQ(c.decay_steps, 100);
  EXPECT_EQ(c.initial_loss_scale, 1024);
  EXPECT_EQ(c.loss_scale_interval, 50);
}

TEST(TrainConfig, TheLearningRateIsConstantUnlessToldOtherwise) {
  const TrainConfig c;
  for (std::int64_t update : {1, 2, 1000}) EXPECT_EQ(c.learning_rate_at(update), c.learning_rate);
}

TEST(TrainConfig, TheLearningRateWarmsUpThenFallsAlongACosineToItsMinimum) {
  TrainConfig c;
  c.learning_rate = 1e-3;
  c.min_learning_rate = 1e-4;
  c.warmup_steps = 10;
  c.decay_steps = 100;
  EXPECT_DOUBLE_EQ(c.learning_rate_at(1), 1e-4);
  EXPECT_DOUBLE_EQ(c.learning_rate_at(10), 1e-3);
  EXPECT_DOUBLE_EQ(c.learning_rate_at(60), (1e-3 + 1e-4) / 2);
  EXPECT_NEAR(c.learning_rate_at(35), 1e-4 + 9e-4 * (1 + std::sqrt(0.5)) / 2, 1e-12);
  EXPECT_DOUBLE_EQ(c.learning_rate_at(110), 1e-4);
  EXPECT_DOUBLE_EQ(c.learning_rate_at(100000), 1e-4);
}

TEST(TrainConfig, HasADefaultForEveryKey) {
  const TrainConfig c = load(R"({"schema": "zplan.train/1"})");
  EXPECT_EQ(c.learning_rate, TrainConfig{}.learning_rate);
  EXPECT_EQ(c.clip_norm, TrainConfig{}.clip_norm);
  EXPECT_EQ(c.seed, 0u);
}

TEST(TrainConfig, RefusesWhatMakesNoSense) {
  using testing::HasSubstr;
  const std::string head = R"({"schema": "zplan.train/1", )";
  EXPECT_THAT(refusal("{}"), HasSubstr("schema"));
  EXPECT_THAT(refusal(head + R"("beta1": 1.0})"), HasSubstr("/beta1"));
  EXPECT_THAT(refusal(head + R"("epsilon": 0})"), HasSubstr("/epsilon"));
  EXPECT_THAT(refusal(head + R"("learning_rate": -1})"), HasSubstr("/learning_rate"));
  EXPECT_THAT(refusal(head + R"("learning_rate": "1"})"), HasSubstr("/learning_rate"));
  EXPECT_THAT(refusal(head + R"("clip_norm": 0})"), HasSubstr("/clip_norm"));
  EXPECT_THAT(refusal(head + R"("seed": -1})"), HasSubstr("/seed"));
  EXPECT_THAT(refusal(head + R"("min_learning_rate": 1})"), HasSubstr("/min_learning_rate"));
  EXPECT_THAT(refusal(head + R"("warmup_steps": -1})"), HasSubstr("/warmup_steps"));
  EXPECT_THAT(refusal(head + R"("initial_loss_scale": 0})"), HasSubstr("/initial_loss_scale"));
  EXPECT_THAT(refusal(head + R"("loss_scale_interval": 0})"), HasSubstr("/loss_scale_interval"));
  EXPECT_THAT(refusal(head + R"("sed": 1})"), HasSubstr("\"seed\""));
}

}  // namespace
}  // namespace zplan
