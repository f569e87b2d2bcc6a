// TrainConfig: the values of a training run that do not change its list of operations. Read by the
// executor only; they reach kernels through the StepScalars buffer. Schema "zplan.train/1".
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace zplan {

struct TrainConfig {
  double learning_rate = 1e-3;  // constant
  double beta1 = 0.9;
  double beta2 = 0.95;
  double epsilon = 1e-8;
  double weight_decay = 0.1;  // on matrices only
  double clip_norm = 1.0;     // used when the Plan clips
  std::uint64_t seed = 0;
};

TrainConfig load_train_config(const std::string& path);

}  // namespace zplan
