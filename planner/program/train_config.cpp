#include "planner/program/train_config.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <utility>

#include "planner/core/json_reader.h"

namespace zplan {
namespace {

// Ranges [Loshchilov19 algorithm 2]: betas in [0, 1), the rest >= 0. Upper ends only catch slips.
constexpr double kMaxRate = 10;
constexpr double kMaxBeta = 1 - 1e-9;
constexpr double kMinEpsilon = 1e-30;
constexpr double kMaxEpsilon = 1;
constexpr double kMaxDecay = 10;
constexpr double kMaxDropout = 0.99;
constexpr double kMinNorm = 1e-9;
constexpr double kMaxNorm = 1e9;
constexpr double kMaxScale = 1e30;
constexpr std::int64_t kMaxSteps = std::int64_t{1} << 40;

void read(JsonObject& object, std::string_view key, double min, double max, double& value) {
  if (const auto node = object.optional_member(key)) value = node->number(min, max);
}

void read(JsonObject& object, std::string_view key, std::int64_t min, std::int64_t& value) {
  if (const auto node = object.optional_member(key)) value = node->integer(min, kMaxSteps);
}

}  // namespace

// Warm-up [Vaswani17 sec 5.3], decay [Loshchilov17 Eq. 5].
double TrainConfig::learning_rate_at(std::int64_t update) const {
  if (update <= warmup_steps)
    return learning_rate * static_cast<double>(update) / static_cast<double>(warmup_steps);
  if (decay_steps == 0) return learning_rate;
  const double done = static_cast<double>(update - warmup_steps) / static_cast<double>(decay_steps);
  const double cosine = std::cos(std::numbers::pi * std::min(1.0, done));
  return min_learning_rate + (learning_rate - min_learning_rate) * (1 + cosine) / 2;
}

TrainConfig parse_train_config(std::string text, std::string file_name) {
  JsonObject object = parse_json(std::move(text), std::move(file_name)).object();
  object.schema("zplan.train/1");
  TrainConfig config;
  read(object, "learning_rate", 0, kMaxRate, config.learning_rate);
  read(object, "min_learning_rate", 0, config.learning_rate, config.min_learning_rate);
  read(object, "warmup_steps", 0, config.warmup_steps);
  read(object, "decay_steps", 0, config.decay_steps);
  read(object, "initial_loss_scale", 1, kMaxScale, config.initial_loss_scale);
  read(object, "loss_scale_interval", 1, config.loss_scale_interval);
  read(object, "beta1", 0, kMaxBeta, config.beta1);
  read(object, "beta2", 0, kMaxBeta, config.beta2);
  read(object, "epsilon", kMinEpsilon, kMaxEpsilon, config.epsilon);
  read(object, "weight_decay", 0, kMaxDecay, config.weight_decay);
  read(object, "clip_norm", kMinNorm, kMaxNorm, config.clip_norm);
  read(object, "dropout", 0, kMaxDropout, config.dropout);
  if (const auto node = object.optional_member("seed")) {
    config.seed =
        static_cast<std::uint64_t>(node->integer(0, std::numeric_limits<std::int64_t>::max()));
  }
  object.finish();
  return config;
}

TrainConfig load_train_config(const std::string& path) {
  return parse_train_config(read_text_file(path), path);
}

}  // namespace zplan
