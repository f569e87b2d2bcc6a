#include "planner/program/train_config.h"

#include <limits>

#include "planner/core/json_reader.h"

namespace zplan {
namespace {

// Ranges [Loshchilov19 algorithm 2]: betas in [0, 1), the rest >= 0. Upper ends only catch slips.
constexpr double kMaxRate = 10;
constexpr double kMaxBeta = 1 - 1e-9;
constexpr double kMinEpsilon = 1e-30;
constexpr double kMaxEpsilon = 1;
constexpr double kMaxDecay = 10;
constexpr double kMinNorm = 1e-9;
constexpr double kMaxNorm = 1e9;

void read(JsonObject& object, std::string_view key, double min, double max, double& value) {
  if (const auto node = object.optional_member(key)) value = node->number(min, max);
}

}  // namespace

TrainConfig load_train_config(const std::string& path) {
  JsonObject object = read_json_file(path).object();
  object.schema("zplan.train/1");
  TrainConfig config;
  read(object, "learning_rate", 0, kMaxRate, config.learning_rate);
  read(object, "beta1", 0, kMaxBeta, config.beta1);
  read(object, "beta2", 0, kMaxBeta, config.beta2);
  read(object, "epsilon", kMinEpsilon, kMaxEpsilon, config.epsilon);
  read(object, "weight_decay", 0, kMaxDecay, config.weight_decay);
  read(object, "clip_norm", kMinNorm, kMaxNorm, config.clip_norm);
  if (const auto node = object.optional_member("seed")) {
    config.seed =
        static_cast<std::uint64_t>(node->integer(0, std::numeric_limits<std::int64_t>::max()));
  }
  object.finish();
  return config;
}

}  // namespace zplan
