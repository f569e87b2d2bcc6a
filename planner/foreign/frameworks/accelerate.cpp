#include "planner/foreign/frameworks/accelerate.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "planner/core/text.h"
#include "planner/foreign/frameworks/choose_kernels.h"
#include "planner/foreign/frameworks/common_rules.h"
#include "planner/foreign/frameworks/config_reader.h"
#include "planner/foreign/frameworks/deepspeed.h"
#include "planner/foreign/frameworks/framework.h"
#include "planner/foreign/frameworks/fsdp.h"
#include "planner/foreign/frameworks/key_list.h"
#include "planner/foreign/frameworks/model_config_file.h"
#include "planner/foreign/frameworks/named_file.h"
#include "planner/foreign/frameworks/trained_keys.h"
#include "planner/foreign/hugging_face/hugging_face.h"
#include "planner/plan/limits.h"
#include "planner/program/kernels/kernel_set.h"

namespace zplan {
namespace {

class AccelerateReading {
 public:
  AccelerateReading(const JsonNode& root, const Surroundings& around)
      : table_(KeyTable::of("accelerate.json")), config_(root, table_), around_(around) {}

  Setup read() {
    out_.version = table_.version();
    out_.stack = "hf";
    plan().model = around_.model.name;
    config_.check_keys();
    read_parallel();
    read_sharding();
    read_batch();
    read_rest();
    out_.findings = std::move(config_).findings();
    return std::move(out_);
  }

 private:
  Plan& plan() { return out_.plan; }
  KeysToPlan parts() { return {config_, around_, plan()}; }

  std::int64_t size(std::string_view of) const {
    return config_.integer(fmt::format("parallelism_config.parallelism_config_{}_size", of), 1,
                           kMaxDp);
  }

  void read_parallel() {
    Parallel& p = plan().parallel;
    p.tp = static_cast<std::int32_t>(size("tp"));
    p.cp = static_cast<std::int32_t>(size("cp"));
    p.ring = p.cp;
    divide_ranks(parts(), "parallelism_config.parallelism_config_tp_size");
    const std::int64_t processes = config_.integer("num_processes", -1, kMaxDp);
    if (processes > 0) compare_ranks(config_, around_, "num_processes", processes);
  }

  // Of the two versions of FSDP the file names one: by default the first.
  bool is_version_2() const {
    return config_.has("fsdp_config.fsdp_version") &&
           config_.integer("fsdp_config.fsdp_version", 1, 2) == 2;
  }

  // As written in a file, true or "true".
  bool is_on(std::string_view key) const {
    const auto node = config_.find(key);
    if (!node) return false;
    return node->is_string() ? to_lower(node->string()) == "true" : node->boolean();
  }

  void read_sharding() {
    FsdpSettings settings;
    const std::string type =
        config_.has("distributed_type")
            ? config_.word("distributed_type",
                           {"FSDP", "MULTI_GPU", "NO", "DEEPSPEED", "MEGATRON_LM", "MULTI_CPU",
                            "MULTI_NPU", "MULTI_MLU", "MULTI_SDAA", "MULTI_MUSA", "MULTI_XPU",
                            "MULTI_HPU", "MULTI_NEURON", "XLA", "TPU"})
            : "NO";
    const std::int64_t dp = plan().replicas();
    const bool is_fsdp = type == "FSDP" || config_.has("fsdp_config");
    settings.replicate = config_.has("parallelism_config") ? size("dp_replicate") : 1;
    settings.shard = is_fsdp ? std::max<std::int64_t>(dp / settings.replicate, 1) : 1;
    settings.reshards = is_version_2() ? !config_.has("fsdp_config.fsdp_reshard_after_forward") ||
                                             is_on("fsdp_config.fsdp_reshard_after_forward")
                                       : read_strategy(settings);
    settings.offloads = is_fsdp && is_on("fsdp_config.fsdp_offload_params");
    const std::string precision =
        config_.has("mixed_precision")
            ? config_.word("mixed_precision", {"no", "fp16", "bf16", "fp8"})
            : "no";
    settings.compute = precision == "bf16" || precision == "fp8" ? DType::kBf16
                       : precision == "fp16"                     ? DType::kF16
                                                                 : DType::kF32;
    if (precision == "fp8")
      config_.add(Trouble::kNotModelled, "mixed_precision", "fp8 is counted as bf16");
    apply_fsdp(settings, around_.device, plan(), config_);
    if (is_fsdp) read_wrapping();
  }

  // Of version 1: which states are sharded over whom.
  bool read_strategy(FsdpSettings& settings) {
    const std::string key = "fsdp_config.fsdp_sharding_strategy";
    if (!config_.has(key)) return true;
    const JsonNode node = *config_.find(key);
    const std::string word = node.is_number()
                                 ? strategy_of(node.integer(1, 5))
                                 : node.one_of({"FULL_SHARD", "SHARD_GRAD_OP", "NO_SHARD",
                                                "HYBRID_SHARD", "HYBRID_SHARD_ZERO2"});
    if (word == "NO_SHARD") settings.shard = 1;
    if (word.starts_with("HYBRID")) {
      settings.shard = std::min<std::int64_t>(settings.shard, around_.devices_per_node);
      settings.replicate = plan().replicas() / settings.shard;
    }
    return word == "FULL_SHARD" || word == "HYBRID_SHARD";
  }

  static std::string strategy_of(std::int64_t number) {
    constexpr std::string_view kNames[] = {"FULL_SHARD", "SHARD_GRAD_OP", "NO_SHARD",
                                           "HYBRID_SHARD", "HYBRID_SHARD_ZERO2"};
    return std::string(kNames[number - 1]);
  }

  void read_wrapping() {
    const std::string key = "fsdp_config.fsdp_auto_wrap_policy";
    const std::string policy =
        config_.has(key)
            ? config_.word(key, {"TRANSFORMER_BASED_WRAP", "SIZE_BASED_WRAP", "NO_WRAP"})
            : "NO_WRAP";
    if (policy == "NO_WRAP" && plan().zero_stage >= 2)
      config_.add(
          Trouble::kNotModelled, key,
          "without wrapping the whole model is gathered at once: counted as a layer at a time");
    if (is_version_2() || policy == "NO_WRAP") return;
    const auto forward = config_.find("fsdp_config.fsdp_forward_prefetch");
    const auto backward = config_.find("fsdp_config.fsdp_backward_prefetch");
    const bool fetches = !backward || !backward->is_string() || backward->string() != "NO_PREFETCH";
    if (!fetches && !forward) plan().prefetch = 0;
  }

  // Batches are the script's.
  void read_batch() {
    Batch& batch = plan().batch;
    const std::int64_t dp = plan().parallel.dp;
    batch.micro_batch = around_.asked.get("/batch/micro_batch", std::int64_t{0});
    if (batch.micro_batch == 0) {
      batch.micro_batch = 1;
      config_.add(Trouble::kAssumed, "",
                  "micro-batch 1: the training script says it, or --micro-batch");
    }
    const auto steps = config_.find("gradient_accumulation_steps");
    const std::int64_t accumulated = steps ? steps->integer(1, kMaxGlobalBatch) : 1;
    const std::int64_t together = batch.micro_batch * dp;
    batch.global_batch = around_.asked.get("/batch/global_batch", together * accumulated);
    fit_batch(parts(), "", Trouble::kAssumed);
    batch.sequence = around_.asked.get("/batch/sequence", around_.model.sequence);
  }

  void read_rest() {
    plan().clip = around_.asked.get("/clip", true);
    take_dropout(around_.asked, plan(), config_);
    take_trained(around_.asked, plan());
    if (around_.asked.has("/recompute")) plan().recompute = around_.asked.values().recompute;
    if (is_on("fsdp_config.fsdp_activation_checkpointing")) plan().recompute = {{Recompute::kFull}};
    if (is_on("fsdp_config.fsdp_activation_checkpointing_offload")) {
      if (plan().all_full())
        plan().placement.activations = Tier::kCpu;
      else
        config_.add(Trouble::kNoEffect, "fsdp_config.fsdp_activation_checkpointing_offload",
                    "needs fsdp_activation_checkpointing");
    }
  }

  const KeyTable& table_;
  ConfigReader config_;
  const Surroundings& around_;
  Setup out_;
};

// What a section says, by the names that DeepSpeed has for it.
struct Renamed {
  std::string_view key, deepspeed;
};
constexpr Renamed kRenamed[] = {
    {"zero_stage", "zero_optimization.stage"},
    {"gradient_accumulation_steps", "gradient_accumulation_steps"},
    {"gradient_clipping", "gradient_clipping"},
    {"offload_optimizer_device", "zero_optimization.offload_optimizer.device"},
    {"offload_optimizer_nvme_path", "zero_optimization.offload_optimizer.nvme_path"},
    {"offload_param_device", "zero_optimization.offload_param.device"},
    {"offload_param_nvme_path", "zero_optimization.offload_param.nvme_path"},
};

// A word or a number as JSON; numbers and switches in quotes are what is in them.
std::string json_of(const JsonNode& node) {
  const std::string text = node.describe();
  if (!node.is_string()) return text.substr(text.rfind(' ') + 1);
  const std::string word = node.string();
  const bool is_plain = word.find_first_not_of("0123456789.") == std::string::npos && !word.empty();
  return is_plain ? word : in_quotes(word);
}

std::optional<DType> precision_of(const JsonNode& root) {
  const auto node = find_key(root, "mixed_precision");
  const std::string word = node && node->is_string() ? node->string() : "";
  if (word == "bf16") return DType::kBf16;
  if (word == "fp16") return DType::kF16;
  return word == "no" ? std::optional(DType::kF32) : std::nullopt;
}

// Accelerate fills in "auto" itself, as the Trainer does [Accelerate].
Setup read_section(const JsonNode& root, const JsonNode& section, Surroundings around) {
  KeyList keys;
  keys.put("train_micro_batch_size_per_gpu", "\"auto\"");
  for (const Renamed& each : kRenamed)
    if (const auto node = find_key(section, each.key); node && !node->is_null())
      keys.put(each.deepspeed, json_of(*node));
  const auto precision = find_key(root, "mixed_precision");
  const std::string word = precision && precision->is_string() ? precision->string() : "no";
  keys.put("bf16.enabled", word == "bf16" ? "true" : "false");
  keys.put("fp16.enabled", word == "fp16" ? "true" : "false");
  around.with_trainer = true;
  Setup setup =
      read_deepspeed(parse_json(nested_json(std::move(keys).keys()), "deepspeed_config"), around);
  for (Finding& finding : setup.findings)
    for (const Renamed& each : kRenamed)
      if (finding.key == each.deepspeed)
        if (const auto node = find_key(section, each.key)) finding.place = node->location();
  return setup;
}

}  // namespace

bool is_accelerate(const JsonNode& root) {
  return find_key(root, "compute_environment") || find_key(root, "distributed_type");
}

Setup read_accelerate(const JsonNode& root, const Surroundings& around) {
  const auto section = find_key(root, "deepspeed_config");
  if (section && section->is_object() && !section->members().empty()) {
    const auto file = find_key(*section, "deepspeed_config_file");
    if (!file || file->is_null()) return read_section(root, *section, around);
    Surroundings filled = around;
    filled.with_trainer = true;
    filled.compute = precision_of(root);
    return read_deepspeed(read_named_config(*file), filled);
  }
  return AccelerateReading(root, around).read();
}

std::vector<KeyValue> accelerate_keys(const Plan& plan, const ModelConfig& model) {
  KeyList keys;
  const Parallel& p = plan.parallel;
  const DType compute = find_kernel_set(plan.kernel_set).compute;
  const bool is_sharded = plan.zero_stage >= 2;
  keys.add("compute_environment", "LOCAL_MACHINE");
  keys.add("distributed_type", is_sharded ? "FSDP" : "MULTI_GPU");
  keys.add("mixed_precision", compute == DType::kBf16  ? "bf16"
                              : compute == DType::kF16 ? "fp16"
                                                       : "no");
  keys.add("num_processes", p.ranks());
  if (is_sharded) {
    keys.add("fsdp_config.fsdp_version", 2);
    keys.add("fsdp_config.fsdp_reshard_after_forward", plan.zero_stage == 3);
    keys.add("fsdp_config.fsdp_auto_wrap_policy", "TRANSFORMER_BASED_WRAP");
    keys.add("fsdp_config.fsdp_transformer_layer_cls_to_wrap", layer_class_of(plan, model));
    keys.add("fsdp_config.fsdp_offload_params", plan.placement.optimizer == Tier::kCpu);
    keys.add("fsdp_config.fsdp_activation_checkpointing", plan.all_full());
    if (plan.all_full() && plan.placement.activations == Tier::kCpu)
      keys.add("fsdp_config.fsdp_activation_checkpointing_offload", true);
    keys.add("fsdp_config.fsdp_state_dict_type", "SHARDED_STATE_DICT");
  }
  const std::int64_t shards = plan.shards();
  if (p.tp * p.cp > 1 || (is_sharded && shards < plan.replicas())) {
    keys.add("parallelism_config.parallelism_config_dp_replicate_size", plan.replicas() / shards);
    keys.add("parallelism_config.parallelism_config_dp_shard_size", shards / p.cp);
    keys.add("parallelism_config.parallelism_config_tp_size", p.tp);
    keys.add("parallelism_config.parallelism_config_cp_size", p.cp);
  }
  return std::move(keys).keys();
}

}  // namespace zplan
