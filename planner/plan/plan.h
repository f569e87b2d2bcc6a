// Plan: every decision of a training step and nothing computed from them. Schema "zplan.plan/1".
// Read by planner/lower only (law 1); everything downstream reads the Job.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "planner/program/job.h"
#include "planner/program/ops.h"

namespace zplan {

enum class GatherUnit : std::uint8_t { kLayer, kOperator };
enum class Recompute : std::uint8_t { kNone, kFull };
enum class LaunchMode : std::uint8_t { kStream };
enum class Schedule : std::uint8_t { kOneForwardOneBackward };

struct Parallel {
  std::int32_t dp = 1;  // data parallel replicas
  std::int32_t pp = 1;  // pipeline stages
  friend bool operator==(const Parallel&, const Parallel&) = default;
};

// Home tier of each state between uses. `activations`: checkpoints (needs Recompute::kFull).
struct StatePlacement {
  Tier params = Tier::kGpu;
  Tier grads = Tier::kGpu;
  Tier optimizer = Tier::kGpu;
  Tier activations = Tier::kGpu;
  friend bool operator==(const StatePlacement&, const StatePlacement&) = default;
};

// Element types of the model states. `master`: separate full-precision copy of the parameters.
// Parameters and gradients have the type that the kernel set computes in: no set accumulates 16-bit
// gradients in fp32 (18 bytes per parameter). Master and moments have that type too or, where the
// set runs on a GPU, fp32.
struct PrecisionRecipe {
  DType param = DType::kF32;
  DType grad = DType::kF32;
  DType master = DType::kF32;
  DType moments = DType::kF32;
  bool separate_master = false;
  friend bool operator==(const PrecisionRecipe&, const PrecisionRecipe&) = default;
};

struct Batch {
  std::int64_t global_batch = 1;  // sequences per optimizer step
  std::int64_t micro_batch = 1;   // sequences per replica and micro-step
  std::int64_t sequence = 1;      // tokens
  friend bool operator==(const Batch&, const Batch&) = default;
};

struct Plan {
  std::string model;     // name or path of a ModelConfig
  std::string hardware;  // name of a cluster; never enters the Job
  Parallel parallel;
  std::int32_t zero_stage = 0;  // 0..3 [Rajbhandari20 sec 5]
  StatePlacement placement;
  GatherUnit gather = GatherUnit::kOperator;
  // Gather units in flight beyond the one in use: parameters ahead of it, gradients behind it.
  std::int32_t prefetch = 1;
  Recompute recompute = Recompute::kNone;
  std::string kernel_set = "cpu.f32";
  PrecisionRecipe precision;
  Batch batch;
  Schedule schedule = Schedule::kOneForwardOneBackward;  // of the pipeline [Narayanan21 sec 2.2]
  RankOrder order = RankOrder::kDataFirst;
  LaunchMode launch = LaunchMode::kStream;
  double slack = 0.05;  // memory placement may use this much more than the live peak
  bool clip = true;
  bool loss_scaling = false;
  friend bool operator==(const Plan&, const Plan&) = default;

  std::int64_t micro_steps() const {
    return batch.global_batch / (batch.micro_batch * parallel.dp);
  }
};

// The recipe a kernel set trains with by default: 16 bytes per parameter for 16-bit and fp32 sets
// [Rajbhandari20 sec 3.1].
PrecisionRecipe default_recipe(std::string_view kernel_set);

// What legality asks of a model.
struct ModelShape {
  std::int64_t layers = 0;
  std::int64_t hidden = 0;
  std::int64_t ffn = 0;
  std::int64_t vocab = 0;
};
// Of anything with these members: models/ModelConfig, which plans know nothing of.
template <typename Model>
ModelShape shape_of(const Model& model) {
  return {model.layers, model.hidden, model.ffn, model.vocab};
}

// Why no Job exists for this plan and model, in one line, or nothing. Names the nearest legal value
// where there is one. Sizes are within limits.h; no count of a Job exceeds 64 bits.
std::optional<std::string> illegal(const Plan& plan, const ModelShape& model);
// All but the sizes that plan and model have together; `layers` of the model bound the stages.
std::optional<std::string> illegal(const Plan& plan, std::int64_t layers);

std::string to_json(const Plan& plan);
Plan plan_from_json(const std::string& text, const std::string& file_name);
Plan load_plan(const std::string& path);

std::string_view name(GatherUnit unit);
std::string_view name(Recompute recompute);
std::string_view name(Schedule schedule);
std::string_view name(LaunchMode launch);

}  // namespace zplan
