#include "planner/foreign/frameworks/torchtitan.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "planner/core/text.h"
#include "planner/foreign/frameworks/common_rules.h"
#include "planner/foreign/frameworks/config_reader.h"
#include "planner/foreign/frameworks/fsdp.h"
#include "planner/foreign/frameworks/key_list.h"
#include "planner/foreign/frameworks/torchtitan_options.h"
#include "planner/foreign/hugging_face/write_config.h"
#include "planner/plan/limits.h"
#include "planner/program/kernels/kernel_set.h"

namespace zplan {
namespace {

struct ScheduleName {
  std::string_view name;
  Schedule schedule;
};
constexpr ScheduleName kSchedules[] = {{"1F1B", Schedule::kOneForwardOneBackward},
                                       {"GPipe", Schedule::kGpipe},
                                       {"Interleaved1F1B", Schedule::kInterleaved},
                                       {"ZBVZeroBubble", Schedule::kZeroBubbleV},
                                       {"DualPipeV", Schedule::kDualPipeV}};

class TitanReading {
 public:
  // `line`: all of the command, where the keys are its options.
  TitanReading(const JsonNode& root, const JsonNode& line, const Surroundings& around,
               bool has_options)
      : line_(line),
        table_(KeyTable::of(has_options ? "torchtitan_options.json" : "torchtitan.json")),
        config_(root, table_),
        around_(around),
        has_options_(has_options) {}

  Setup read() {
    out_.version = table_.version();
    out_.stack = "torchtitan";
    plan().model = around_.model.name;
    check_keys();
    read_parallel();
    read_sharding();
    read_batch();
    read_schedule();
    read_recomputation();
    plan().clip = config_.number("training.max_norm", 0, 1e9) > 0;
    out_.findings = std::move(config_).findings();
    return std::move(out_);
  }

 private:
  Plan& plan() { return out_.plan; }
  KeysToPlan parts() { return {config_, around_, plan()}; }

  // A module of the user's own adds keys.
  void check_keys() {
    const bool extends = std::ranges::any_of(
        std::initializer_list<std::string_view>{"job.custom_config_module",
                                                "experimental.custom_args_module"},
        [&](std::string_view key) {
          const auto node = config_.find(key);
          return node && node->is_string() && !node->string().empty();
        });
    config_.check_keys(extends ? "the module that adds keys" : "");
  }

  std::int32_t degree(std::string_view key, std::int64_t most) const {
    return static_cast<std::int32_t>(config_.integer(fmt::format("parallelism.{}", key), 1, most));
  }

  void read_parallel() {
    Parallel& p = plan().parallel;
    p.tp = degree("tensor_parallel_degree", kMaxTp);
    p.pp = degree("pipeline_parallel_degree", kMaxStages);
    p.cp = degree("context_parallel_degree", kMaxDp);
    p.ring = p.cp;
    p.ep = degree("expert_parallel_degree", kMaxDp);
    const std::string_view parallel = "parallelism.enable_sequence_parallel";  // since 0.3
    p.sequence_parallel = p.tp > 1 && (!config_.has(parallel) || config_.flag(parallel));
    check_launcher(config_, around_, line_);
    divide_ranks(parts(), "parallelism.tensor_parallel_degree");
    // Its train spec has no function that cuts it [torchtitan models/gpt_oss/__init__.py].
    const auto model = config_.find("model.name");
    if (p.pp > 1 && model && model->is_string() && model->string() == "gpt_oss")
      config_.add(Trouble::kError, "parallelism.pipeline_parallel_degree",
                  "gpt_oss has no pipeline in torchtitan");
  }

  DType element_type(std::string_view key) const {
    const std::string word = config_.word(key, {"bfloat16", "float16", "float32"});
    return word == "bfloat16" ? DType::kBf16 : word == "float16" ? DType::kF16 : DType::kF32;
  }

  void read_sharding() {
    const std::string_view key = "parallelism.data_parallel_shard_degree";
    FsdpSettings settings;
    settings.replicate = degree("data_parallel_replicate_degree", kMaxDp);
    const std::int64_t dp = plan().parallel.dp;
    const std::int64_t shard = config_.integer(key, -1, kMaxDp);
    settings.shard = shard == -1 ? std::max<std::int64_t>(dp / settings.replicate, 1) : shard;
    fit_shards(settings, dp, key, config_);
    settings.shard *= plan().parallel.cp;  // of FSDP2 the context parallel ranks are part
    const std::string reshards =
        config_.word("parallelism.fsdp_reshard_after_forward", {"default", "always", "never"});
    settings.reshards = reshards == "always" || (reshards == "default" && plan().parallel.pp == 1);
    settings.offloads = config_.flag("training.enable_cpu_offload");
    settings.compute = element_type("training.mixed_precision_param");
    const std::string_view reduced = "training.mixed_precision_reduce";
    settings.reduces_in_fp32 = element_type(reduced) == DType::kF32;
    if (has_options_ && !settings.reduces_in_fp32)
      config_.add(Trouble::kError, reduced, "from 0.3 on float32 alone");
    apply_fsdp(settings, around_.device, plan(), config_);
  }

  void read_batch() {
    Batch& batch = plan().batch;
    const std::int64_t dp = plan().parallel.dp;
    const std::int64_t local = config_.integer("training.local_batch_size", 1, kMaxGlobalBatch);
    const bool has_pipeline = plan().parallel.pp > 1;
    batch.micro_batch =
        has_pipeline
            ? config_.integer("parallelism.pipeline_parallel_microbatch_size", 1, kMaxGlobalBatch)
            : local;
    const std::int64_t global = config_.integer("training.global_batch_size", -1, kMaxGlobalBatch);
    batch.global_batch = global > 0 ? global : local * dp;
    batch.sequence = config_.integer("training.seq_len", 1, kMaxSequence);
    fit_batch(parts(), "training.global_batch_size");
  }

  void read_schedule() {
    if (plan().parallel.pp == 1) return;
    const std::string_view key = "parallelism.pipeline_parallel_schedule";
    const auto node = config_.find(key);
    const std::string word = node ? node->string() : "1F1B";
    const auto* const found =
        std::ranges::find(kSchedules, std::string_view(word), &ScheduleName::name);
    if (found == std::end(kSchedules)) {
      config_.add(Trouble::kError, key,
                  fmt::format("{} is none of the schedules that are known here", in_quotes(word)));
      return;
    }
    plan().schedule = found->schedule;
    const auto less = [&](const char* end) {
      return config_.integer(fmt::format("parallelism.pipeline_parallel_{}_stage_less_layers", end),
                             0, kMaxLayers);
    };
    if (less("first") + less("last") > 0)
      config_.add(
          Trouble::kNotModelled, "parallelism.pipeline_parallel_first_stage_less_layers",
          "stages are taken to be even; the first and the last have fewer layers unless this is 0");
  }

  void read_recomputation() {
    const std::string mode =
        config_.word("activation_checkpoint.mode", {"none", "selective", "full", "memory_budget"});
    if (mode == "full") plan().recompute = {{Recompute::kFull}};
    if (mode == "memory_budget")
      config_.add(Trouble::kNotModelled, "activation_checkpoint.mode",
                  "a memory budget is counted as no recomputation");
    if (mode == "selective") read_selective();
  }

  // "2": every second layer is recomputed; "op": what is cheap to recompute of every layer.
  void read_selective() {
    const std::string option =
        config_.find("activation_checkpoint.selective_ac_option")
            ? config_.find("activation_checkpoint.selective_ac_option")->string()
            : "2";
    if (option == "op") {
      plan().recompute = {{.mode = Recompute::kOperators,
                           .operators = {LayerOperator::kNorm, LayerOperator::kActivation}}};
      config_.add(Trouble::kNotModelled, "activation_checkpoint.selective_ac_option",
                  "op also recomputes every second product, which is counted as kept");
    } else if (option == "1") {
      plan().recompute = {{Recompute::kFull}};
    } else {
      config_.add(Trouble::kNotModelled, "activation_checkpoint.mode",
                  "recomputation of every other layer is counted as none");
    }
  }

  JsonNode line_;
  const KeyTable& table_;
  ConfigReader config_;
  const Surroundings& around_;
  bool has_options_;
  Setup out_;
};

// Models that torchtitan has by a flavor, by their names in the catalogue.
struct Flavor {
  std::string_view name, flavor, model;
};
constexpr Flavor kFlavors[] = {{"llama3", "8B", "llama3-8b"},
                               {"llama3", "70B", "llama3-70b"},
                               {"llama3", "405B", "llama3-405b"},
                               {"qwen3", "0.6B", "qwen3-0.6b"},
                               {"qwen3", "8B", "qwen3-8b"},
                               {"qwen3", "30B-A3B", "qwen3-30b-a3b"},
                               {"qwen3", "235B-A22B", "qwen3-235b-a22b"},
                               {"deepseek_v3", "236B", "deepseek-v2"},
                               {"deepseek_v3", "671B", "deepseek-v3"},
                               {"gpt_oss", "20b", "gpt-oss-20b"},
                               {"gpt_oss", "120b", "gpt-oss-120b"}};

// Loaded once: keys are written of many plans.
const std::vector<ModelConfig>& flavor_models() {
  static const std::vector<ModelConfig> models = [] {
    std::vector<ModelConfig> all;
    for (const Flavor& each : kFlavors) all.push_back(load_model(each.model));
    return all;
  }();
  return models;
}

void write_model(const ModelConfig& model, KeyList& keys) {
  for (std::size_t i = 0; i < std::size(kFlavors); ++i) {
    if (!config_differences(model, flavor_models()[i]).empty()) continue;
    keys.add("model.name", kFlavors[i].name);
    keys.add("model.flavor", kFlavors[i].flavor);
  }
}

}  // namespace

bool is_torchtitan(const JsonNode& root) {
  const auto parallelism = find_key(root, "parallelism"), training = find_key(root, "training");
  return find_key(root, "training.local_batch_size") || find_key(root, "training.seq_len") ||
         find_key(root, "parallelism.data_parallel_shard_degree") ||
         find_key(root, "job.dump_folder") || has_torchtitan_options(root) ||
         (parallelism && parallelism->is_object() && training && training->is_object());
}

std::optional<ModelConfig> torchtitan_model(const JsonNode& root) {
  const auto says = [&](std::string_view key, std::string_view word) {
    const auto node = find_key(root, key);
    return node && node->is_string() && node->string() == word;
  };
  for (const Flavor& each : kFlavors)
    if (says("model.name", each.name) && says("model.flavor", each.flavor))
      return load_model(each.model);
  return std::nullopt;
}

Setup read_torchtitan(const JsonNode& root, const Surroundings& around) {
  if (!has_torchtitan_options(root)) return TitanReading(root, root, around, false).read();
  const OptionSections sections = torchtitan_sections(root);
  Setup setup = TitanReading(sections.root, root, around, true).read();
  for (Finding& finding : setup.findings)
    if (const auto place = sections.places.find(finding.key); place != sections.places.end())
      finding.place = place->second;
    else
      finding.place.clear();
  return setup;
}

std::vector<KeyValue> torchtitan_keys(const Plan& plan, const ModelConfig& model) {
  KeyList keys;
  write_model(model, keys);
  const Parallel& p = plan.parallel;
  const bool has_pipeline = p.pp > 1;
  const std::int64_t local = has_pipeline ? plan.batch.global_batch / p.dp : plan.batch.micro_batch;
  keys.add("training.local_batch_size", local);
  keys.add("training.global_batch_size", plan.batch.global_batch);
  keys.add("training.seq_len", plan.batch.sequence);
  keys.add("training.max_norm", plan.clip ? 1.0 : 0.0);
  keys.add("training.enable_cpu_offload", plan.placement.optimizer == Tier::kCpu);
  const bool reduces_in_fp32 = plan.precision.grad_cast == GradientCast::kBeforeReduction;
  keys.add("training.mixed_precision_param",
           find_kernel_set(plan.kernel_set).compute == DType::kF32 ? "float32" : "bfloat16");
  keys.add("training.mixed_precision_reduce", reduces_in_fp32 ? "float32" : "bfloat16");
  const std::int64_t shards = plan.zero_stage == 0 ? 1 : plan.shards() / p.cp;
  keys.add("parallelism.data_parallel_replicate_degree", p.dp / std::max<std::int64_t>(shards, 1));
  keys.add("parallelism.data_parallel_shard_degree", std::max<std::int64_t>(shards, 1));
  keys.add("parallelism.fsdp_reshard_after_forward", plan.zero_stage == 3 ? "always" : "never");
  keys.add("parallelism.tensor_parallel_degree", p.tp);
  keys.add("parallelism.pipeline_parallel_degree", p.pp);
  keys.add("parallelism.context_parallel_degree", p.cp);
  keys.add("parallelism.expert_parallel_degree", p.ep);
  if (has_pipeline) {
    const auto* const schedule =
        std::ranges::find(kSchedules, plan.schedule, &ScheduleName::schedule);
    keys.add("parallelism.pipeline_parallel_schedule",
             schedule == std::end(kSchedules) ? "1F1B" : schedule->name);
    keys.add("parallelism.pipeline_parallel_microbatch_size", plan.batch.micro_batch);
    keys.add("parallelism.pipeline_parallel_first_stage_less_layers", 0);
    keys.add("parallelism.pipeline_parallel_last_stage_less_layers", 0);
  }
  keys.add("activation_checkpoint.mode", plan.all_full() ? "full" : "none");
  return std::move(keys).keys();
}

}  // namespace zplan
