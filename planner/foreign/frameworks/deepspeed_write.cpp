#include <fmt/format.h>

#include <algorithm>

#include "planner/foreign/frameworks/deepspeed.h"
#include "planner/foreign/frameworks/key_list.h"
#include "planner/foreign/frameworks/model_config_file.h"
#include "planner/foreign/frameworks/unit_elements.h"
#include "planner/foreign/hugging_face/hugging_face.h"
#include "planner/program/kernels/kernel_set.h"

namespace zplan {
namespace {

class DeepSpeedWriting {
 public:
  DeepSpeedWriting(const Plan& plan, const ModelConfig& model) : plan_(plan), model_(model) {}

  std::vector<KeyValue> write() {
    keys_.add("train_micro_batch_size_per_gpu", plan_.batch.micro_batch);
    keys_.add("gradient_accumulation_steps", plan_.micro_steps());
    keys_.add("train_batch_size", plan_.batch.global_batch);
    keys_.add("gradient_clipping", plan_.clip ? 1 : 0);
    write_precision();
    keys_.add("zero_optimization.stage", plan_.zero_stage);
    write_buckets();
    if (plan_.zero_stage == 3) write_gather();
    write_homes();
    if (plan_.parallel.tp > 1) keys_.add("tensor_parallel.autotp_size", plan_.parallel.tp);
    if (plan_.parallel.cp > 1) keys_.add("sequence_parallel_size", plan_.parallel.cp);
    if (plan_.placement.activations != Tier::kGpu)
      keys_.add("activation_checkpointing.cpu_checkpointing", true);
    write_optimizer();
    return std::move(keys_).keys();
  }

 private:
  void write_precision() {
    const DType compute = find_kernel_set(plan_.kernel_set).compute;
    keys_.add("bf16.enabled", compute == DType::kBf16);
    keys_.add("fp16.enabled", compute == DType::kF16);
    const std::string_view recipe = recipe_name(recipe_index(plan_));
    if (recipe == "half-reduction") keys_.add("data_types.grad_accum_dtype", "fp32");
    if (recipe != "lean") return;
    keys_.add("bf16.bf16_master_weights_and_grads", true);
    keys_.add("bf16.bf16_optimizer_states", true);
  }

  void write_buckets() {
    if (plan_.zero_stage == 0) return;
    const std::int64_t unit = unit_elements(plan_, model_);
    keys_.add("zero_optimization.overlap_comm",
              plan_.overlap.gradients && (plan_.zero_stage < 3 || plan_.overlap.parameters));
    keys_.add("zero_optimization.contiguous_gradients", true);
    keys_.add("zero_optimization.reduce_bucket_size", unit);
    if (plan_.zero_stage < 3) keys_.add("zero_optimization.allgather_bucket_size", unit);
  }

  // So many units are fetched ahead, one more is in use, and each is released after use.
  void write_gather() {
    const std::int64_t unit = unit_elements(plan_, model_);
    keys_.add("zero_optimization.stage3_prefetch_bucket_size", plan_.prefetch * unit);
    keys_.add("zero_optimization.stage3_max_live_parameters", (plan_.prefetch + 1) * unit);
    keys_.add("zero_optimization.stage3_max_reuse_distance", 0);
    keys_.add("zero_optimization.stage3_param_persistence_threshold", 0);
    if (plan_.gather.by_layer())
      keys_.put("zero_optimization.leaf_module.classes",
                fmt::format("[\"{}\"]", layer_class_of(plan_, model_)));
    if (plan_.secondary > 1)
      keys_.add("zero_optimization.zero_hpz_partition_size", plan_.secondary);
  }

  void write_homes() {
    const StatePlacement& homes = plan_.placement;
    const std::int32_t least_stage = homes.optimizer == Tier::kNvme ? 3 : 1;
    if (homes.optimizer != Tier::kGpu && plan_.zero_stage >= least_stage)
      write_home("optimizer", homes.optimizer);
    if (homes.optimizer_near > 0 && plan_.zero_stage == 3)
      keys_.add("zero_optimization.offload_optimizer.ratio", 1 - homes.optimizer_near);
    if (homes.params != Tier::kGpu && plan_.zero_stage == 3) write_home("param", homes.params);
    const bool uses_nvme = homes.optimizer == Tier::kNvme || homes.params == Tier::kNvme;
    if (!uses_nvme || plan_.zero_stage < 3) return;
    // Requests of 1 MiB, 32 in flight, as our own engine for drives has them.
    keys_.add("aio.block_size", 1 << 20);
    keys_.add("aio.queue_depth", 32);
    keys_.add("aio.overlap_events", true);
    keys_.add("aio.single_submit", false);
  }

  void write_home(std::string_view what, Tier tier) {
    const std::string path = fmt::format("zero_optimization.offload_{}", what);
    keys_.add(path + ".device", name(tier));
    keys_.add(path + ".pin_memory", true);
    if (tier != Tier::kNvme) return;
    keys_.add(path + ".nvme_path", "/local_nvme");
    if (what == "param") {
      const std::int64_t shards = plan_.shards();
      keys_.add(path + ".buffer_size", (largest_parameter(plan_, model_) + shards - 1) / shards);
    } else {
      keys_.add(path + ".pipeline_read", true);
      keys_.add(path + ".pipeline_write", true);
    }
  }

  void write_optimizer() {
    const OptimizerKind kind = plan_.optimizer.kind;
    const bool is_muon = kind == OptimizerKind::kMuon;
    const bool is_sgd = kind == OptimizerKind::kSgd || kind == OptimizerKind::kSgdMomentum;
    keys_.add("optimizer.type", is_muon ? "Muon" : is_sgd ? "SGD" : "AdamW");
    keys_.add("optimizer.params.lr", 1e-4);
  }

  const Plan& plan_;
  const ModelConfig& model_;
  KeyList keys_;
};

}  // namespace

std::vector<KeyValue> deepspeed_keys(const Plan& plan, const ModelConfig& model) {
  return DeepSpeedWriting(plan, model).write();
}

}  // namespace zplan
