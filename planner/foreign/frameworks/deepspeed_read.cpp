#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "models/model_formulas.h"
#include "planner/core/text.h"
#include "planner/foreign/frameworks/choose_kernels.h"
#include "planner/foreign/frameworks/deepspeed.h"
#include "planner/foreign/frameworks/unit_elements.h"
#include "planner/plan/limits.h"

namespace zplan {
namespace {

constexpr std::int64_t kMostElements = std::int64_t{1} << 62;
constexpr std::int64_t kMost16BitBytes = 2;

// TrainingArguments' per_device_train_batch_size [Transformers].
constexpr std::int64_t kTrainerMicroBatch = 8;

class Reading {
 public:
  Reading(const JsonNode& root, const Surroundings& around)
      : table_("deepspeed.json"), config_(root, table_), around_(around) {}

  Setup read() {
    out_.version = table_.version();
    out_.stack = "hf";
    config_.check_keys();
    read_parallel();
    read_homes();
    read_precision();
    read_gather();
    read_batch();
    read_rest();
    count_buckets();
    check_offload();
    out_.findings = std::move(config_).findings();
    return std::move(out_);
  }

 private:
  Plan& plan() { return out_.plan; }

  void read_parallel() {
    Parallel& p = plan().parallel;
    p.tp = static_cast<std::int32_t>(
        std::max<std::int64_t>(config_.integer("tensor_parallel.autotp_size", 0, kMaxTp), 1));
    p.cp = static_cast<std::int32_t>(config_.integer("sequence_parallel_size", 1, kMaxDp));
    const std::int64_t cut = std::int64_t{p.tp} * p.cp;
    if (around_.ranks % cut != 0)
      config_.add(Trouble::kError,
                  p.tp > 1 ? "tensor_parallel.autotp_size" : "sequence_parallel_size",
                  fmt::format("{} ranks are no multiple of {}", around_.ranks, cut));
    p.dp = static_cast<std::int32_t>(std::max<std::int64_t>(around_.ranks / cut, 1));
    plan().zero_stage = static_cast<std::int32_t>(config_.integer("zero_optimization.stage", 0, 3));
    const std::int64_t secondary =
        config_.integer("zero_optimization.zero_hpz_partition_size", 0, kMaxDp);
    if (secondary > 1 && plan().zero_stage == 3)
      plan().secondary = static_cast<std::int32_t>(secondary);
    if (secondary > 1 && plan().zero_stage < 3)
      config_.add(Trouble::kNoEffect, "zero_optimization.zero_hpz_partition_size",
                  "secondary shards are of stage 3");
  }

  // Whether a format is enabled: as written, as the Trainer fills it in, or nothing.
  bool is_on(const std::string& format) {
    const std::string key = format + ".enabled";
    if (!config_.is_auto(key)) return config_.has(format) && config_.flag(key);
    if (!around_.with_trainer) {
      config_.add(Trouble::kNoEffect, key, "\"auto\" means false without Hugging Face's Trainer");
      return false;
    }
    return usual_format() == format;
  }

  // What the Trainer is asked for: not in this file.
  std::string_view usual_format() const {
    if (around_.compute)
      return *around_.compute == DType::kBf16  ? "bf16"
             : *around_.compute == DType::kF16 ? "fp16"
                                               : "";
    return around_.device.supports("bf16") ? "bf16" : "fp16";
  }

  void read_precision() {
    const bool bf16 = is_on("bf16"), fp16 = is_on("fp16");
    if (bf16 && fp16)
      config_.add(Trouble::kError, "fp16.enabled", "bf16 and fp16 exclude each other");
    const bool is_filled = config_.is_auto("bf16.enabled") || config_.is_auto("fp16.enabled");
    if (is_filled && around_.with_trainer && !around_.compute)
      config_.add(Trouble::kAssumed, bf16 ? "bf16.enabled" : "fp16.enabled",
                  fmt::format("the Trainer's arguments say {}", bf16   ? "bf16"
                                                                : fp16 ? "fp16"
                                                                       : "neither"));
    if (bf16 && !around_.device.supports("bf16"))
      config_.add(Trouble::kError, "bf16.enabled",
                  fmt::format("{} has no bf16", around_.device.name));
    const DType compute = bf16 ? DType::kBf16 : fp16 ? DType::kF16 : DType::kF32;
    choose_kernels(compute, LayerProducts::kAsStored, around_.device, plan(), config_);
    choose_recipe(compute);
    plan().loss_scaling = fp16;
  }

  // Without ZeRO bf16 gradients are added up in fp32, with it in the type of the parameters, unless
  // grad_accum_dtype says otherwise; the CPU's optimizer keeps them in fp32.
  void choose_recipe(DType compute) {
    if (compute == DType::kF32) return;
    const bool is_lean = config_.has("bf16") &&
                         config_.flag("bf16.bf16_master_weights_and_grads") &&
                         config_.flag("bf16.bf16_optimizer_states");
    const bool in_fp32 =
        config_.has("data_types.grad_accum_dtype")
            ? config_.word("data_types.grad_accum_dtype", {"fp32", "bf16", "fp16"}) == "fp32"
            : plan().zero_stage == 0 && compute == DType::kBf16;
    std::string recipe = in_fp32 ? "half-reduction" : "standard";
    if (in_fp32 && plan().zero_stage < 2) recipe = "fp32-gradients";
    if (plan().placement.optimizer != Tier::kGpu) recipe = "main-gradients";
    if (is_lean) recipe = "lean";
    if (const auto found = find_recipe(recipe, plan().kernel_set)) plan().precision = *found;
  }

  // Home of what a section of zero_optimization sends away.
  Tier device_of(std::string_view section) const {
    const std::string path = fmt::format("zero_optimization.{}", section);
    const std::string old = section == "offload_optimizer" ? "zero_optimization.cpu_offload"
                                                           : "zero_optimization.cpu_offload_param";
    if (const auto flag = config_.find(old); flag && flag->is_boolean() && flag->boolean())
      return Tier::kCpu;
    if (!config_.has(path)) return Tier::kGpu;
    const std::string device = config_.word(path + ".device", {"none", "cpu", "nvme"});
    return device == "none" ? Tier::kGpu : *parse_name<Tier>(device);
  }

  void read_homes() {
    const Tier optimizer = device_of("offload_optimizer"), params = device_of("offload_param");
    const int stage = plan().zero_stage;
    if (optimizer != Tier::kGpu && stage == 0) {
      config_.add(Trouble::kNoEffect, "zero_optimization.offload_optimizer",
                  "an optimizer is sent away at stages 1 to 3 only");
    } else if (optimizer == Tier::kNvme && stage < 3) {
      config_.add(Trouble::kError, "zero_optimization.offload_optimizer.device",
                  "NVMe needs stage 3");
    } else {
      plan().placement.optimizer = optimizer;
      if (stage >= 2) plan().placement.grads = optimizer;
    }
    if (params != Tier::kGpu && stage < 3) {
      config_.add(Trouble::kNoEffect, "zero_optimization.offload_param",
                  fmt::format("parameters are sent away at stage 3 only, this is stage {}", stage));
    } else {
      plan().placement.params = params;
    }
    if (stage < 3 || optimizer == Tier::kGpu) return;
    const double ratio = config_.number("zero_optimization.offload_optimizer.ratio", 0, 1);
    plan().placement.optimizer_near = 1 - ratio;
  }

  void read_gather() {
    const auto classes = config_.find("zero_optimization.leaf_module.classes");
    plan().gather = classes ? Gather::kLayer : Gather::kOperator;
    if (plan().zero_stage < 3) plan().gather = bucket_unit();
    const bool overlaps = config_.has("zero_optimization.overlap_comm")
                              ? config_.flag("zero_optimization.overlap_comm")
                              : plan().zero_stage == 3;
    plan().overlap.gradients = overlaps;
    plan().overlap.parameters = overlaps && plan().zero_stage == 3;
    plan().prefetch = 1;
    if (plan().zero_stage < 3) return;
    const std::int64_t unit = unit_elements(plan(), around_.model);
    const std::int64_t ahead = elements("zero_optimization.stage3_prefetch_bucket_size",
                                        9 * around_.model.hidden * around_.model.hidden / 10) /
                               unit;
    const std::int64_t live =
        config_.integer("zero_optimization.stage3_max_live_parameters", 0, kMostElements) / unit -
        1;
    plan().prefetch =
        static_cast<std::int32_t>(std::clamp<std::int64_t>(std::min(ahead, live), 0, kMaxPrefetch));
    if (!overlaps) plan().prefetch = 0;
    if (ahead == 0 && overlaps)
      config_.add(
          Trouble::kNoEffect, "zero_optimization.stage3_prefetch_bucket_size",
          fmt::format(
              "smaller than what is gathered at a time, {} elements: nothing is fetched ahead",
              unit));
  }

  // Gradients of whole layers where a bucket holds them.
  Gather bucket_unit() const {
    const std::int64_t h = around_.model.hidden;
    return unit_of_bucket(elements("zero_optimization.reduce_bucket_size", h * h), out_.plan,
                          around_.model);
  }

  // A count of elements that the Trainer fills in where it is "auto".
  std::int64_t elements(std::string_view key, std::int64_t of_trainer) const {
    if (config_.is_auto(key) && around_.with_trainer) return of_trainer;
    return config_.integer(key, 0, kMostElements);
  }

  // As written, as the Trainer or the user says; 0: neither does.
  std::int64_t batch_number(const char* key, std::string_view pointer, std::int64_t of_trainer) {
    if (config_.has(key)) return config_.integer(key, 1, kMaxGlobalBatch);
    if (config_.is_auto(key) && !around_.with_trainer)
      config_.add(Trouble::kError, key,
                  "\"auto\" is filled in by Hugging Face's Trainer only (--with hf)");
    const std::int64_t asked = pointer.empty() ? 0
                               : around_.asked.has(pointer)
                                   ? around_.asked.get(pointer, std::int64_t{0})
                                   : 0;
    return asked > 0 ? asked : config_.is_auto(key) ? of_trainer : 0;
  }

  // Any of the three numbers follows from the others.
  void read_batch() {
    const std::int64_t dp = plan().parallel.dp;
    std::int64_t micro =
        batch_number("train_micro_batch_size_per_gpu", "/batch/micro_batch", kTrainerMicroBatch);
    std::int64_t steps = batch_number("gradient_accumulation_steps", "",
                                      std::max<std::int64_t>(around_.accumulation, 1));
    std::int64_t global = batch_number("train_batch_size", "/batch/global_batch", 0);
    if (micro == 0 && global == 0) {
      micro = 1;
      config_.add(Trouble::kError, "train_micro_batch_size_per_gpu",
                  "neither this nor train_batch_size is given; 1 is taken here");
    }
    if (micro == 0)
      micro = std::max<std::int64_t>(global / dp / std::max<std::int64_t>(steps, 1), 1);
    if (steps == 0) steps = global > 0 ? std::max<std::int64_t>(global / dp / micro, 1) : 1;
    if (global == 0) global = micro * steps * dp;
    if (global != micro * steps * dp)
      config_.add(Trouble::kError, "train_batch_size",
                  fmt::format("{} is not micro-batch {} x accumulation {} x {} replicas", global,
                              micro, steps, dp));
    plan().batch = {.global_batch = micro * steps * dp,
                    .micro_batch = micro,
                    .sequence = around_.asked.get("/batch/sequence", around_.model.sequence)};
  }

  void read_rest() {
    plan().model = around_.model.name;
    plan().clip = config_.number("gradient_clipping", 0, 1e9) > 0;
    if (around_.asked.has("/recompute")) plan().recompute = around_.asked.values().recompute;
    take_dropout(around_.asked, plan());
    const bool offloads = config_.has("activation_checkpointing") &&
                          config_.flag("activation_checkpointing.cpu_checkpointing");
    if (offloads && plan().all_full()) plan().placement.activations = Tier::kCpu;
    if (offloads && !plan().all_full())
      config_.add(Trouble::kNoEffect, "activation_checkpointing.cpu_checkpointing",
                  "only where the model calls deepspeed.checkpointing and recomputes all layers "
                  "(--recompute full)");
    read_optimizer();
    if (config_.flag("zero_optimization.zero_quantized_weights") ||
        config_.flag("zero_optimization.zero_quantized_gradients"))
      config_.add(Trouble::kNotModelled, "zero_optimization.zero_quantized_weights",
                  "quantized gathers and reductions move less than is counted here");
  }

  void read_optimizer() {
    const auto type = config_.find("optimizer.type");
    if (!type) return;
    constexpr std::pair<std::string_view, OptimizerKind> kNames[] = {
        {"adam", OptimizerKind::kAdamW},
        {"adamw", OptimizerKind::kAdamW},
        {"muon", OptimizerKind::kMuon},
        {"sgd", OptimizerKind::kSgd}};
    const std::string word = to_lower(type->string());
    const auto* const found =
        std::ranges::find(kNames, word, &std::pair<std::string_view, OptimizerKind>::first);
    if (found != std::end(kNames)) {
      plan().optimizer.kind = found->second;
    } else {
      config_.add(Trouble::kNotModelled, "optimizer.type",
                  fmt::format("{}: counted as AdamW", in_quotes(type->string())));
    }
  }

  // One flat buffer of gradients, two where one is filled while the other is reduced, and at stage
  // 3 parameters that stay gathered since they are used again soon.
  void count_buckets() {
    const std::int64_t h = around_.model.hidden;
    const std::int64_t bucket = elements("zero_optimization.reduce_bucket_size", h * h);
    const std::int64_t copies = plan().overlap.gradients && plan().zero_stage < 3 ? 2 : 1;
    const std::int64_t held = plan().zero_stage == 0 ? 0 : bucket * copies;
    std::int64_t live = 0;
    if (plan().zero_stage == 3)
      live = std::min(
          {config_.integer("zero_optimization.stage3_max_live_parameters", 0, kMostElements),
           config_.integer("zero_optimization.stage3_max_reuse_distance", 0, kMostElements),
           parameter_count(around_.model) / plan().parallel.tp});
    out_.buckets = Bytes{kMost16BitBytes * (std::min(held, kMostElements / 4) + live)};
  }

  void check_path(const std::string& section) {
    if (device_of(section) == Tier::kNvme &&
        !config_.has(fmt::format("zero_optimization.{}.nvme_path", section)))
      config_.add(Trouble::kError, fmt::format("zero_optimization.{}.device", section),
                  "nvme needs nvme_path beside it");
  }

  // What no parser notices.
  void check_offload() {
    check_path("offload_optimizer");
    check_path("offload_param");
    check_elements("zero_optimization.reduce_bucket_size");
    const std::string buffer = "zero_optimization.offload_param.buffer_size";
    if (plan().placement.params == Tier::kNvme) {
      const std::int64_t size = config_.integer(buffer, 0, kMostElements);
      const std::int64_t largest =
          (largest_parameter(plan(), around_.model) + plan().shards() - 1) / plan().shards();
      if (size < largest)
        config_.add(
            Trouble::kError, buffer,
            fmt::format("{} elements hold no shard of the largest parameter, {}", size, largest));
    }
    for (const char* key : {"aio.thread_count"})
      if (config_.has(key))
        config_.add(Trouble::kNoEffect, key, "called intra_op_parallelism since 0.16.4");
    if (plan().zero_stage == 3 && config_.has("zero_optimization.allgather_bucket_size"))
      config_.add(Trouble::kNoEffect, "zero_optimization.allgather_bucket_size",
                  "of stages 1 and 2 only");
    if (plan().zero_stage < 3)
      for (const char* key : {"stage3_prefetch_bucket_size", "stage3_max_live_parameters",
                              "stage3_max_reuse_distance", "stage3_param_persistence_threshold"})
        if (const std::string whole = fmt::format("zero_optimization.{}", key); config_.has(whole))
          config_.add(Trouble::kNoEffect, whole, "of stage 3 only");
  }

  void check_elements(const char* key) {
    if (config_.is_auto(key) && !around_.with_trainer)
      config_.add(Trouble::kNoEffect, key,
                  "\"auto\" means DeepSpeed's default without Hugging Face's Trainer");
  }

  KeyTable table_;
  ConfigReader config_;
  const Surroundings& around_;
  Setup out_;
};

}  // namespace

bool is_deepspeed(const JsonNode& root) {
  constexpr std::string_view kSigns[] = {"zero_optimization", "train_micro_batch_size_per_gpu",
                                         "train_batch_size"};
  return std::ranges::any_of(
      kSigns, [&](std::string_view sign) { return find_key(root, sign).has_value(); });
}

Setup read_deepspeed(const JsonNode& root, const Surroundings& around) {
  return Reading(root, around).read();
}

}  // namespace zplan
