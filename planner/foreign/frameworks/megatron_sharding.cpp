#include <fmt/format.h>

#include <algorithm>

#include "planner/foreign/frameworks/choose_kernels.h"
#include "planner/foreign/frameworks/megatron_parts.h"
#include "planner/foreign/frameworks/unit_elements.h"
#include "planner/plan/limits.h"

namespace zplan {
namespace {

// Of several options the last one here counts.
std::int32_t stage_of(const ConfigReader& config) {
  std::int32_t stage = config.flag("--use-distributed-optimizer") ? 1 : 0;
  if (config.flag("--use-torch-fsdp2")) stage = 3;
  if (config.has("--zero-stage"))
    stage = static_cast<std::int32_t>(config.find("--zero-stage")->integer(0, 3));
  if (!config.flag("--use-megatron-fsdp")) return stage;
  const std::string strategy =
      config.word("--data-parallel-sharding-strategy",
                  {"no_shard", "optim", "optim_grads", "optim_grads_params"});
  return strategy == "no_shard" ? 0 : strategy == "optim" ? 1 : strategy == "optim_grads" ? 2 : 3;
}

// Experts, and Muon, take one layer after the other.
// [MegatronCore distributed/distributed_data_parallel_config.py]
Gather bucket_unit(const KeysToPlan& to) {
  constexpr std::int64_t kLeast = 40'000'000, kPerReplica = 1'000'000,
                         kMost = std::int64_t{1} << 40;
  const std::string_view option = "--ddp-bucket-size";
  const std::int64_t usual = std::max(kLeast, kPerReplica * to.plan.parallel.dp);
  const std::int64_t bucket = to.config.has(option) ? to.config.integer(option, 1, kMost) : usual;
  const Gather unit = unit_of_bucket(bucket, to.plan, to.around.model);
  const bool by_layer =
      to.around.model.experts.has_value() || to.plan.optimizer.kind == OptimizerKind::kMuon;
  return by_layer && unit.by_layer() ? Gather(Gather::kLayer) : unit;
}

}  // namespace

void read_megatron_precision(const KeysToPlan& to) {
  ConfigReader& config = to.config;
  Plan& plan = to.plan;
  const bool bf16 = config.flag("--bf16"), fp16 = config.flag("--fp16");
  if (bf16 && fp16) config.add(Trouble::kError, "--fp16", "--bf16 and --fp16 exclude each other");
  const DType compute = bf16 ? DType::kBf16 : fp16 ? DType::kF16 : DType::kF32;
  const LayerProducts products =
      config.has("--fp8-format") ? LayerProducts::kFp8 : LayerProducts::kAsStored;
  choose_kernels(compute, products, to.around.device, plan, config);
  plan.loss_scaling = fp16 && !bf16;
  const bool in_fp32 = compute != DType::kF32 && !config.flag("--grad-reduce-in-bf16");
  if (const auto recipe = find_recipe("fp32-gradients", plan.kernel_set); in_fp32 && recipe)
    plan.precision = *recipe;
  const bool drops =
      config.number("--attention-dropout", 0, 1) > 0 || config.number("--hidden-dropout", 0, 1) > 0;
  set_dropout(drops, plan, config);
}

void read_megatron_sharding(const KeysToPlan& to) {
  ConfigReader& config = to.config;
  Plan& plan = to.plan;
  plan.zero_stage = stage_of(config);
  const std::int64_t instances = config.integer("--num-distributed-optimizer-instances", 1, kMaxDp);
  if (instances > 1 && plan.replicas() % instances == 0)
    plan.parallel.shards = static_cast<std::int32_t>(plan.replicas() / instances);
  const bool is_fsdp = plan.zero_stage >= 2;
  plan.overlap.gradients = config.flag("--overlap-grad-reduce") || is_fsdp;
  plan.overlap.parameters = config.flag("--overlap-param-gather") || is_fsdp;
  if (config.flag("--overlap-param-gather") && plan.zero_stage == 0)
    config.add(Trouble::kError, "--overlap-param-gather", "needs --use-distributed-optimizer");
}

void read_megatron_homes(const KeysToPlan& to) {
  ConfigReader& config = to.config;
  if (config.flag("--optimizer-cpu-offload")) {
    to.plan.placement.optimizer = Tier::kCpu;
    to.plan.placement.optimizer_near = 1 - config.number("--optimizer-offload-fraction", 0, 1);
    if (!config.flag("--use-precision-aware-optimizer"))
      config.add(Trouble::kError, "--optimizer-cpu-offload",
                 "needs --use-precision-aware-optimizer");
  }
  // [MegatronCore optimizer/optimizer_config.py]
  const std::string_view aware = "--use-precision-aware-optimizer";
  if (config.flag(aware) && to.plan.zero_stage == 0)
    config.add(Trouble::kError, aware, "needs --use-distributed-optimizer");
  if (config.flag(aware) && config.find("--optimizer") &&
      config.find("--optimizer")->string() != "adam")
    config.add(Trouble::kError, aware, "needs --optimizer adam");
  const std::string_view layers = "--cpu-offloading-num-layers";
  if (config.integer(layers, 0, kMaxLayers) == 0) return;
  if (to.plan.parallel.pp > 1)
    config.add(Trouble::kError, layers, "not with a pipeline");
  else
    config.add(Trouble::kNotModelled, layers, "activations are counted on the GPU");
}

Gather megatron_gather(const KeysToPlan& to) {
  return to.plan.zero_stage >= 2 ? Gather(Gather::kLayer) : bucket_unit(to);
}

}  // namespace zplan
