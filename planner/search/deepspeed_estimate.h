// What DeepSpeed's documented estimators say a job needs, to lay beside what is placed. They count
// model states only: no activations, no gathered parameters but one layer, no fragmentation.
//
// P parameters, n GPUs per node, N GPUs in all, g = 1 / nodes, LL = 4 bytes x parameters of the
// largest layer, buffer factor 1.5; bytes of one GPU | of the host of one node [DeepSpeed]
//   ZeRO-2, optimizer on CPU       2 P              | P max(4 N, 16) 1.5
//   ZeRO-2, all on GPU             2 P + 18 P / N   | 4 P n 1.5         documented: 4 P + 16 P / N
//   ZeRO-3, all on CPU             LL               | 18 P g 1.5        else P max(4 n, 18 g) 1.5
//   ZeRO-3, optimizer on CPU       LL + 2 P / N     | 16 P g 1.5        else P max(4 n, 16 g) 1.5
//   ZeRO-3, all on GPU             LL + 18 P / N    | LL n 1.5          else 4 P n 1.5
// "else": without zero.Init, where every process first builds the whole model on its host.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "models/model_config.h"
#include "planner/core/units.h"
#include "planner/plan/plan.h"

namespace zplan {

// What the estimators ask for.
struct DeepSpeedJob {
  std::int64_t parameters = 0;
  std::int64_t largest_layer = 0;  // parameters of the largest module that has some of its own
  std::int64_t gpus_per_node = 1;
  std::int64_t nodes = 1;
  // Tensor and pipeline parallel slices with a host in common: each needs its own estimate there.
  std::int64_t slices_per_node = 1;
};

enum class DeepSpeedRule : std::uint8_t { kCurrent, kDocumented };
enum class DeepSpeedOffload : std::uint8_t { kNone, kOptimizer, kAll };

struct DeepSpeedEstimate {
  Bytes gpu{0};   // of one GPU
  Bytes host{0};  // of one node
};

// Offload of parameters does not exist: kAll is as kOptimizer.
DeepSpeedEstimate deepspeed_zero2(const DeepSpeedJob& job, DeepSpeedOffload offload,
                                  DeepSpeedRule rule = DeepSpeedRule::kCurrent);
DeepSpeedEstimate deepspeed_zero3(const DeepSpeedJob& job, DeepSpeedOffload offload,
                                  bool zero_init = true);

// The job that the estimators would be asked about for a model: one of its tensor and pipeline
// parallel slices, of which they know nothing.
DeepSpeedJob deepspeed_job(const Plan& plan, const ModelConfig& model, std::int64_t gpus_per_node);

// The estimate for the plan's ZeRO stage and homes; nothing for stages 0 and 1, which have none.
// NVMe counts as CPU: the estimators do not tell them apart. The host is that of all slices on a
// node.
std::optional<DeepSpeedEstimate> deepspeed_estimate(const Plan& plan, const DeepSpeedJob& job,
                                                    DeepSpeedRule rule, bool zero_init);

}  // namespace zplan
