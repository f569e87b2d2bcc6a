#include "planner/foreign/frameworks/trainer.h"

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

struct OptimizerName {
  std::string_view word;
  OptimizerKind kind;
};
constexpr OptimizerName kOptimizerNames[] = {{"adamw_torch", OptimizerKind::kAdamW},
                                             {"adamw_torch_fused", OptimizerKind::kAdamW},
                                             {"adamw_hf", OptimizerKind::kAdamW},
                                             {"adamw_apex_fused", OptimizerKind::kAdamW},
                                             {"paged_adamw_32bit", OptimizerKind::kAdamW},
                                             {"adamw_8bit", OptimizerKind::kAdamW8Bit},
                                             {"paged_adamw", OptimizerKind::kAdamW},
                                             {"adamw_bnb_8bit", OptimizerKind::kAdamW8Bit},
                                             {"paged_adamw_8bit", OptimizerKind::kAdamW8Bit},
                                             {"adafactor", OptimizerKind::kAdafactor},
                                             {"sgd", OptimizerKind::kSgd}};

class TrainerReading {
 public:
  TrainerReading(const JsonNode& root, const Surroundings& around)
      : table_(KeyTable::of("trainer.json")),
        config_(arguments_of(root).value_or(root), table_, arguments_of(root) ? "--" : ""),
        around_(around) {
    config_.check_keys("the training script");
    check_launcher(config_, around_, root);
  }

  Setup read() {
    around_.with_trainer = true;
    ask();
    Setup setup = framework_setup();
    setup.version = table_.version();
    read_optimizer(setup.plan);
    read_trained(setup.plan);
    std::vector<Finding> own = std::move(config_).findings();
    std::ranges::move(own, std::back_inserter(setup.findings));
    return setup;
  }

 private:
  // What the other configuration is told.
  void ask() {
    around_.asked.set("/batch/micro_batch",
                      config_.integer("per_device_train_batch_size", 1, kMaxGlobalBatch));
    around_.accumulation = config_.integer("gradient_accumulation_steps", 1, kMaxGlobalBatch);
    around_.compute = config_.flag("bf16")   ? DType::kBf16
                      : config_.flag("fp16") ? DType::kF16
                                             : DType::kF32;
    if (config_.flag("bf16") && config_.flag("fp16"))
      config_.add(Trouble::kError, "fp16", "bf16 and fp16 exclude each other");
    const bool recomputes = is_on("gradient_checkpointing") || is_on("activation_checkpointing");
    around_.asked.set("/recompute", std::vector<RecomputeRun>{
                                        {recomputes ? Recompute::kFull : Recompute::kNone}});
  }

  bool is_on(std::string_view key) const {
    const auto node = config_.find(key);
    if (node && node->is_string()) return to_lower(node->string()) == "true";
    return node && node->is_boolean() && node->boolean();
  }

  Setup framework_setup() {
    const auto deepspeed = config_.find("deepspeed");
    if (deepspeed && deepspeed->is_string())
      return read_deepspeed(read_named_config(*deepspeed), around_);
    if (deepspeed && !deepspeed->is_object())
      deepspeed->fail_expected("DeepSpeed's configuration or the path of it");
    if (deepspeed) return read_deepspeed(*deepspeed, around_);
    return sharded_setup();
  }

  // `fsdp` is true or, until transformers 5, words: "full_shard auto_wrap offload".
  Setup sharded_setup() {
    Setup setup{.version = table_.version(), .stack = "hf"};
    Plan& plan = setup.plan;
    plan.model = around_.model.name;
    plan.parallel.dp = static_cast<std::int32_t>(around_.ranks);
    const auto fsdp = config_.find("fsdp");
    const std::string words = fsdp && fsdp->is_string() ? fsdp->string() : "";
    const bool is_sharded = is_on("fsdp") || words.find("shard") != std::string::npos;
    FsdpSettings settings{.replicate = 1, .shard = is_sharded ? around_.ranks : 1};
    settings.reshards = words.find("shard_grad_op") == std::string::npos &&
                        words.find("zero2") == std::string::npos && reshards();
    if (words.find("hybrid") != std::string::npos) {
      settings.shard = std::min<std::int64_t>(around_.ranks, around_.devices_per_node);
      settings.replicate = around_.ranks / settings.shard;
    }
    settings.offloads = words.find("offload") != std::string::npos;
    settings.compute = *around_.compute;
    apply_fsdp(settings, around_.device, plan, config_);
    if (is_on("fsdp_config.activation_checkpointing"))
      plan.recompute = {{Recompute::kFull}};
    else
      plan.recompute = around_.asked.values().recompute;
    plan.clip = config_.number("max_grad_norm", 0, 1e9) > 0;
    take_dropout(around_.asked, plan, config_);
    const std::int64_t micro = around_.asked.get("/batch/micro_batch", std::int64_t{1});
    plan.batch = {.global_batch = micro * around_.accumulation * plan.parallel.dp,
                  .micro_batch = micro,
                  .sequence = around_.asked.get("/batch/sequence", around_.model.sequence)};
    return setup;
  }

  bool reshards() const {
    const auto node = config_.find("fsdp_config.reshard_after_forward");
    return !node || !node->is_boolean() || node->boolean();
  }

  // What the script trains is said by keys of its own.
  void read_trained(Plan& plan) {
    const TrainedKeys keys{[this](std::string_view key) { return config_.find(key); },
                           [this](Trouble trouble, std::string_view key, std::string message) {
                             config_.add(trouble, key, std::move(message));
                           }};
    if (const auto train = read_trained_keys(keys, around_.model)) plan.train = *train;
    take_trained(around_.asked, plan);
    if (!plan.train.has_lora() || !plan.optimizer.row().has_two_rules()) return;
    config_.add(Trouble::kNotModelled, "optim",
                fmt::format("states of factors are counted as those of adamw, not of {}",
                            plan.optimizer.row().word));
    plan.optimizer = {};
  }

  void read_optimizer(Plan& plan) {
    const std::string word = config_.has("optim") ? config_.find("optim")->string() : "adamw_torch";
    const auto* const found =
        std::ranges::find(kOptimizerNames, std::string_view(word), &OptimizerName::word);
    if (found == std::end(kOptimizerNames))
      config_.add(Trouble::kNotModelled, "optim",
                  fmt::format("{}: counted as AdamW", in_quotes(word)));
    else
      plan.optimizer.kind = found->kind;
    if (word.starts_with("paged_"))
      config_.add(Trouble::kAssumed, "optim",
                  "its states are counted on the GPU, where they stay while there is room; "
                  "--offload-moment1 --offload-moment2 counts them on the CPU, brought each step");
  }

  const KeyTable& table_;
  ConfigReader config_;
  Surroundings around_;
};

}  // namespace

bool is_trainer(const JsonNode& root) {
  constexpr std::string_view kSigns[] = {"per_device_train_batch_size", "gradient_checkpointing",
                                         "output_dir"};
  if (const auto options = arguments_of(root))
    return find_key(*options, "--per_device_train_batch_size").has_value();
  return std::ranges::any_of(
      kSigns, [&](std::string_view sign) { return find_key(root, sign).has_value(); });
}

Setup read_trainer(const JsonNode& root, const Surroundings& around) {
  return TrainerReading(root, around).read();
}

std::vector<KeyValue> trainer_keys(const Plan& plan, const ModelConfig& model) {
  KeyList keys;
  const DType compute = find_kernel_set(plan.kernel_set).compute;
  const bool leaves_gpu = plan.zero_stage > 0 && plan.placement.optimizer != Tier::kGpu;
  const bool uses_deepspeed = plan.zero_stage == 1 || plan.zero_stage == 2 || leaves_gpu ||
                              plan.parallel.cp > 1 || plan.parallel.tp > 1;
  keys.add("output_dir", "out");
  keys.add("per_device_train_batch_size", plan.batch.micro_batch);
  keys.add("gradient_accumulation_steps", plan.micro_steps());
  keys.add("bf16", compute == DType::kBf16);
  keys.add("fp16", compute == DType::kF16);
  const bool shards_itself = plan.zero_stage == 3 && !uses_deepspeed;
  // FSDP's own recomputation gathers no parameters twice.
  keys.add("gradient_checkpointing", plan.all_full() && !shards_itself);
  keys.add("max_grad_norm", plan.clip ? 1.0 : 0.0);
  const auto* const optimizer =
      std::ranges::find(kOptimizerNames, plan.optimizer.kind, &OptimizerName::kind);
  if (optimizer != std::end(kOptimizerNames)) keys.add("optim", optimizer->word);
  if (uses_deepspeed) {
    for (KeyValue& each : deepspeed_keys(plan, model))
      keys.put("deepspeed." + each.key, std::move(each.value));
  } else if (shards_itself) {
    keys.add("fsdp", true);
    keys.add("fsdp_config.version", 2);
    keys.add("fsdp_config.reshard_after_forward", true);
    keys.add("fsdp_config.activation_checkpointing", plan.all_full());
    keys.put("fsdp_config.transformer_layer_cls_to_wrap",
             fmt::format("[\"{}\"]", layer_class_of(plan, model)));
  }
  return std::move(keys).keys();
}

}  // namespace zplan
