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

// The format of operands that products are cast to; empty: none. [MegatronCore core/fp8_utils.py,
// core/fp4_utils.py]
std::string_view codes_of(ConfigReader& config) {
  const bool fp8 = config.has("--fp8-format");
  if (config.has("--fp4-format")) {
    if (fp8) config.add(Trouble::kError, "--fp4-format", "excludes --fp8-format");
    return "nvfp4";
  }
  if (!fp8) return "";
  const std::string recipe =
      config.word("--fp8-recipe", {"delayed", "tensorwise", "blockwise", "mxfp8", "custom"});
  if (recipe == "custom")
    config.add(Trouble::kNotModelled, "--fp8-recipe", "counted as one scale for each operand");
  if (recipe == "mxfp8") return "mxfp8";
  return recipe == "blockwise" ? "fp8_block" : "fp8";
}

// Transformer Engine keeps inputs of products as codes for backward.
void keep_codes(Plan& plan) {
  const bool casts = find_kernel_set(plan.kernel_set).layer_products == LayerProducts::kFp8;
  plan.low_precision.keeps_codes = casts && !plan.train.has_lora();
}

// Reads "bf16", or a saved "torch.bfloat16".
std::optional<DType> stored_type(const std::string& word) {
  if (word == "fp32" || word.ends_with("float32")) return DType::kF32;
  if (word == "bf16" || word.ends_with("bfloat16")) return DType::kBf16;
  if (word == "fp16" || word.ends_with("float16")) return DType::kF16;
  return std::nullopt;
}

// Types of an optimizer's states, which one that is aware of precision alone can choose
// [MegatronCore optimizer/optimizer_config.py].
void read_state_types(ConfigReader& config, Plan& plan) {
  const bool aware = config.flag("--use-precision-aware-optimizer");
  const auto type = [&](std::string_view option) {
    const auto node = config.find(option);
    const auto found = node ? stored_type(node->string()) : std::optional(DType::kF32);
    if (found != DType::kF32 && !aware)
      config.add(Trouble::kError, option, "needs --use-precision-aware-optimizer");
    if (!found)
      config.add(Trouble::kNotModelled, option,
                 fmt::format("{} is counted as 16 bits", node->string()));
    return aware ? found.value_or(DType::kBf16) : DType::kF32;
  };
  const DType master = type("--main-params-dtype");
  const DType first = type("--exp-avg-dtype"), second = type("--exp-avg-sq-dtype");
  if (first != second)
    config.add(Trouble::kNotModelled, "--exp-avg-dtype",
               "both moments are counted in the wider of their types");
  const DType moments = size_of(first) < size_of(second) ? second : first;
  if (plan.precision.master == DType::kF32) plan.precision.master = master;
  if (plan.precision.moments == DType::kF32) plan.precision.moments = moments;
}

}  // namespace

void read_megatron_precision(const KeysToPlan& to) {
  ConfigReader& config = to.config;
  Plan& plan = to.plan;
  const bool bf16 = config.flag("--bf16"), fp16 = config.flag("--fp16");
  if (bf16 && fp16) config.add(Trouble::kError, "--fp16", "--bf16 and --fp16 exclude each other");
  const DType compute = bf16 ? DType::kBf16 : fp16 ? DType::kF16 : DType::kF32;
  choose_kernels(compute, codes_of(config), to.around.device, plan, config);
  keep_codes(plan);
  plan.loss_scaling = fp16 && !bf16;
  const auto main_gradients = config.find("--main-grads-dtype");
  const bool asks_fp32 = !main_gradients || stored_type(main_gradients->string()) == DType::kF32;
  const bool in_fp32 = compute != DType::kF32 && !config.flag("--grad-reduce-in-bf16") && asks_fp32;
  if (const auto recipe = find_recipe("fp32-gradients", plan.kernel_set); in_fp32 && recipe)
    plan.precision = *recipe;
  read_state_types(config, plan);
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
