// TrainConfig: the values of a training run that do not change its list of operations. Read by the
// executor only; they reach kernels through the StepScalars buffer. Schema "zplan.train/1"; every
// member is optional. Updates are counted from 1; those that are skipped do not count.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace zplan {

struct TrainConfig {
  // Rises linearly over warmup_steps, then falls along half a cosine to min_learning_rate over
  // decay_steps; 0 decay_steps: stays.
  double learning_rate = 1e-3;
  double min_learning_rate = 0;
  std::int64_t warmup_steps = 0;
  std::int64_t decay_steps = 0;
  double beta1 = 0.9;
  double beta2 = 0.95;
  double epsilon = 1e-8;
  double weight_decay = 0.1;  // on matrices only
  double clip_norm = 1.0;     // used when the Plan clips
  // Used when the kernel set scales the loss: the first scale, and after how many good steps in a
  // row it is doubled. [assumed] the defaults of common mixed-precision trainers
  double initial_loss_scale = 65536;
  std::int64_t loss_scale_interval = 2000;
  double dropout = 0.1;  // rate, used when the Plan has dropout [Radford19]
  std::uint64_t seed = 0;

  double learning_rate_at(std::int64_t update) const;
};

TrainConfig load_train_config(const std::string& path);
// Reads one document; `file_name` stands for it in messages.
TrainConfig parse_train_config(std::string text, std::string file_name);

}  // namespace zplan
