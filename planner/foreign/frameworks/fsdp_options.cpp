#include "planner/foreign/frameworks/fsdp_options.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "planner/foreign/frameworks/choose_kernels.h"
#include "planner/foreign/frameworks/config_reader.h"
#include "planner/foreign/frameworks/fsdp.h"
#include "planner/foreign/frameworks/key_list.h"
#include "planner/foreign/frameworks/model_config_file.h"
#include "planner/foreign/frameworks/trained_keys.h"
#include "planner/foreign/hugging_face/hugging_face.h"
#include "planner/plan/limits.h"

namespace zplan {
namespace {

// Not said: as the parameters are.
DType element_type(const ConfigReader& config, std::string_view key) {
  if (!config.has(key)) return DType::kF32;
  const std::string word = config.word(key, {"bfloat16", "float16", "float32"});
  return word == "bfloat16" ? DType::kBf16 : word == "float16" ? DType::kF16 : DType::kF32;
}

std::string_view torch_name(DType type) {
  return type == DType::kBf16 ? "bfloat16" : type == DType::kF16 ? "float16" : "float32";
}

void read_sharding(ConfigReader& config, const Surroundings& around, Plan& plan) {
  plan.parallel.dp = static_cast<std::int32_t>(around.ranks);
  FsdpSettings settings{.replicate = config.integer("mesh.replicate", 1, kMaxDp),
                        .shard = config.integer("mesh.shard", 1, kMaxDp),
                        .reshards = config.flag("fully_shard.reshard_after_forward"),
                        .offloads = config.flag("offload.to_cpu")};
  fit_shards(settings, around.ranks, "mesh.shard", config);
  settings.compute = element_type(config, "mixed_precision.param_dtype");
  settings.reduces_in_fp32 = element_type(config, "mixed_precision.reduce_dtype") == DType::kF32;
  if (settings.compute == DType::kF16)
    config.add(Trouble::kNotModelled, "mixed_precision.param_dtype",
               "the script does not scale the loss, which float16 needs");
  apply_fsdp(settings, around.device, plan, config);
}

}  // namespace

bool is_fsdp_options(const JsonNode& root) {
  return find_key(root, "fully_shard.reshard_after_forward").has_value();
}

Setup read_fsdp_options(const JsonNode& root, const Surroundings& around) {
  const KeyTable& table = KeyTable::of("fsdp.json");
  ConfigReader config(root, table);
  config.check_keys();
  Setup out{.version = table.version(), .stack = "fsdp"};
  Plan& plan = out.plan;
  plan.model = around.model.name;
  read_sharding(config, around, plan);
  const std::int64_t micro = config.integer("training.micro_batch", 1, kMaxGlobalBatch);
  const std::int64_t accumulation = config.integer("training.accumulation", 1, kMaxGlobalBatch);
  plan.batch = {.global_batch = micro * accumulation * plan.parallel.dp,
                .micro_batch = micro,
                .sequence = config.integer("training.sequence", 1, kMaxSequence)};
  if (config.flag("training.recompute")) plan.recompute = {{Recompute::kFull}};
  plan.clip = config.number("training.clip", 0, 1e9) > 0;
  take_dropout(around.asked, plan, config);
  take_trained(around.asked, plan);
  out.findings = std::move(config).findings();
  return out;
}

std::vector<KeyValue> fsdp_options_keys(const Plan& plan, const ModelConfig& model) {
  KeyList keys;
  const std::int64_t ranks = plan.parallel.ranks(), own = plan.parallel.shards;
  const std::int64_t shards = plan.zero_stage == 0 ? 1 : own > 0 ? own : ranks;
  keys.add("mesh.replicate", std::max<std::int64_t>(ranks / shards, 1));
  keys.add("mesh.shard", shards);
  keys.add("fully_shard.layer", layer_class_of(plan, model));
  keys.add("fully_shard.reshard_after_forward", plan.zero_stage == 3);
  keys.add("mixed_precision.param_dtype", torch_name(find_kernel_set(plan.kernel_set).compute));
  const bool reduces_in_fp32 = plan.precision.grad_cast == GradientCast::kBeforeReduction;
  keys.add("mixed_precision.reduce_dtype", reduces_in_fp32 ? "float32" : "bfloat16");
  keys.add("offload.to_cpu", plan.placement.optimizer == Tier::kCpu);
  keys.add("training.micro_batch", plan.batch.micro_batch);
  keys.add("training.accumulation",
           std::max<std::int64_t>(plan.batch.global_batch / (plan.batch.micro_batch * ranks), 1));
  keys.add("training.sequence", plan.batch.sequence);
  keys.add("training.recompute", plan.all_full());
  keys.add("training.clip", plan.clip ? 1.0 : 0.0);
  return std::move(keys).keys();
}

}  // namespace zplan
