#include "planner/search/deepspeed_estimate.h"

#include <algorithm>

#include "models/model_formulas.h"

namespace zplan {
namespace {

// All [DeepSpeed], bytes per parameter unless said otherwise.
constexpr double kBufferFactor = 1.5;
constexpr double kHalf = 2;      // one 16-bit copy
constexpr double kFull = 4;      // one fp32 copy
constexpr double kSharded = 18;  // 16- and 32-bit gradients, fp32 parameters, moments
constexpr double kDocumentedSharded = 16;
constexpr double kDocumentedWhole = 4;  // 16-bit parameters and gradients
constexpr double kHostAll = 18;
constexpr double kHostOptimizer = 16;

Bytes whole(double bytes) { return {static_cast<std::int64_t>(bytes)}; }

struct JobSizes {
  double parameters, largest, per_node, all, node_share;
};
JobSizes sizes_of(const DeepSpeedJob& job) {
  const auto real = [](std::int64_t n) { return static_cast<double>(n); };
  return {real(job.parameters), real(job.largest_layer), real(job.gpus_per_node),
          real(job.gpus_per_node) * real(job.nodes), 1 / real(job.nodes)};
}

}  // namespace

DeepSpeedEstimate deepspeed_zero2(const DeepSpeedJob& job, DeepSpeedOffload offload,
                                  DeepSpeedRule rule) {
  const JobSizes z = sizes_of(job);
  if (offload != DeepSpeedOffload::kNone)
    return {whole(kHalf * z.parameters),
            whole(z.parameters * std::max(kFull * z.all, kHostOptimizer) * kBufferFactor)};
  const bool current = rule == DeepSpeedRule::kCurrent;
  const double replicated = current ? kHalf : kDocumentedWhole;
  const double sharded = current ? kSharded : kDocumentedSharded;
  return {whole(replicated * z.parameters) + whole(sharded * z.parameters / z.all),
          whole(z.parameters * kFull * z.per_node * kBufferFactor)};
}

DeepSpeedEstimate deepspeed_zero3(const DeepSpeedJob& job, DeepSpeedOffload offload,
                                  bool zero_init) {
  const JobSizes z = sizes_of(job);
  const Bytes layer = whole(kFull * z.largest);
  if (offload == DeepSpeedOffload::kNone) {
    const double built = zero_init ? z.largest : z.parameters;
    return {layer + whole(kSharded * z.parameters / z.all),
            whole(built * kFull * z.per_node * kBufferFactor)};
  }
  const bool all = offload == DeepSpeedOffload::kAll;
  const double states = (all ? kHostAll : kHostOptimizer) * z.node_share;
  const double factor = zero_init ? states : std::max(kFull * z.per_node, states);
  const Bytes shard = all ? Bytes{0} : whole(kHalf * z.parameters / z.all);
  return {layer + shard, whole(z.parameters * factor * kBufferFactor)};
}

DeepSpeedJob deepspeed_job(const Plan& plan, const ModelConfig& model, std::int64_t gpus_per_node) {
  const Parallel& p = plan.parallel;
  const std::int64_t slices = std::int64_t{p.tp} * p.pp;
  const std::int64_t h = model.hidden, bias = model.biases == Biases::kAll ? 1 : 0;
  const std::int64_t qkv_bias = model.biases == Biases::kNone ? 0 : 1;
  const std::int64_t largest =
      std::max({model.vocab * h, qkv_parameter_count(model) + qkv_bias * model.qkv_width(),
                (h + bias) * model.up_width(), (model.ffn + bias) * h});
  // Replicas of a slice on a node, and nodes that their ranks fill.
  const std::int64_t per_node =
      std::clamp<std::int64_t>(gpus_per_node / slices, 1, plan.replicas());
  return {.parameters = parameter_count(model) / slices,
          .largest_layer = largest / p.tp,
          .gpus_per_node = per_node,
          .nodes = (plan.replicas() + per_node - 1) / per_node,
          .slices_per_node = std::min(slices, gpus_per_node)};
}

std::optional<DeepSpeedEstimate> deepspeed_estimate(const Plan& plan, const DeepSpeedJob& job,
                                                    DeepSpeedRule rule, bool zero_init) {
  if (plan.zero_stage < 2) return std::nullopt;
  const StatePlacement& at = plan.placement;
  const DeepSpeedOffload offload = at.params != Tier::kGpu      ? DeepSpeedOffload::kAll
                                   : at.optimizer != Tier::kGpu ? DeepSpeedOffload::kOptimizer
                                                                : DeepSpeedOffload::kNone;
  DeepSpeedEstimate bytes = plan.zero_stage == 2 ? deepspeed_zero2(job, offload, rule)
                                                 : deepspeed_zero3(job, offload, zero_init);
  bytes.host = {bytes.host.value * job.slices_per_node};
  return bytes;
}

}  // namespace zplan
