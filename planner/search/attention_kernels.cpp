#include "planner/search/attention_kernels.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "planner/plan/plan_schedule.h"
#include "planner/program/kernels/fused_attention.h"
#include "planner/program/kernels/kernel_set.h"
#include "planner/search/time_floor.h"

namespace zplan {
namespace {

std::int64_t widest_head(const ModelConfig& model) {
  return std::max(model.head_size(), model.value_size());
}

// Whether the software has kernels for heads that no library takes.
bool has_own_kernels(const Cluster& cluster) { return cluster.stack.vectors_forward > 0; }

// Of one set with fused attention and the one that stores scores.
struct Pair {
  const KernelSet &fused, &stored;
};

// A device that others have no fused kernel for has nothing but vector units for attention, too.
bool library_takes(const KernelSet& fused, std::int64_t head_size, const Cluster& cluster) {
  return has_own_kernels(cluster) ? !runs_on_vectors(fused, head_size)
                                  : head_size <= kLargestFusedHead;
}

// As many ranks as may share a layer, or as pinned.
std::int32_t most_tensor_ranks(const ModelConfig& model, const Cluster& cluster, const Pins& pins) {
  std::int32_t most = 1;
  for (std::int32_t tp = 1; tp <= cluster.island(); ++tp)
    if (cluster.island() % tp == 0 && model.heads % tp == 0 && model.kv_heads % tp == 0) most = tp;
  return pins.get("/parallel/tp", most);
}

bool keeps_scores(const Pins& pins) {
  return pins.has("/recompute") && pins.values().recompute == std::vector<RecomputeRun>{{}};
}

// The scores, their gradient and the probabilities of one sequence on a rank, of one layer where
// they may be computed again for backward.
Bytes score_bytes(const ModelConfig& model, const Cluster& cluster, const KernelSet& set,
                  const Pins& pins) {
  constexpr std::int64_t kStored = 3;  // squares at a time [derived]
  const std::int64_t heads = model.heads / most_tensor_ranks(model, cluster, pins);
  const std::int64_t s = pins.get("/batch/sequence", model.sequence);
  const std::int64_t layers = keeps_scores(pins) ? model.layers : 1;
  return size_of(set.compute) * (kStored * layers * heads * s * s);
}

// A sequence on one device; only what changes its kernels is as pinned.
Plan probe_of(const ModelConfig& model, const KernelSet& set, Recompute mode, const Pins& pins) {
  const Plan& values = pins.values();
  Plan plan;
  plan.model = model.name;
  plan.kernel_set = set.id;
  plan.precision = default_recipe(set.id);
  plan.loss_scaling = set.loss_scaling;
  plan.batch = {
      .global_batch = 1, .micro_batch = 1, .sequence = pins.get("/batch/sequence", model.sequence)};
  plan.recompute = {{mode}};
  plan.train = values.train;
  plan.dropout = values.dropout;
  return plan;
}

// Of the kernels of one sequence; nothing: the set has no such plan.
std::optional<Seconds> floor_of(const ModelConfig& model, const KernelSet& set, Recompute mode,
                                const Cluster& cluster, const Pins& pins) {
  const Plan probe = probe_of(model, set, mode, pins);
  if (illegal(probe, shape_of(model))) return std::nullopt;
  return time_floor(probe, model, cluster);
}

struct Floors {
  std::optional<Seconds> fused, stored, recomputed;  // scores: never, kept, computed again
};

Floors floors_of(const ModelConfig& model, const Pair& sets, const Cluster& cluster,
                 const Pins& pins) {
  return {.fused = floor_of(model, sets.fused, Recompute::kNone, cluster, pins),
          .stored = floor_of(model, sets.stored, Recompute::kNone, cluster, pins),
          .recomputed = floor_of(model, sets.stored, Recompute::kSelective, cluster, pins)};
}

std::vector<std::string> better_of(const ModelConfig& model, const Pair& sets,
                                   const Cluster& cluster, const Pins& pins) {
  // [assumed] of the memory: what a plan hardly notices.
  constexpr double kFew = 0.125;
  const std::string fused(sets.fused.id), stored(sets.stored.id);
  if (pins.values().parallel.ring > 1) return {fused};  // which needs fused attention
  const Floors floors = floors_of(model, sets, cluster, pins);
  if (!floors.fused || !floors.stored || !floors.recomputed) return {fused, stored};
  if (*floors.fused <= *floors.stored) return {fused};
  const auto scores = static_cast<double>(score_bytes(model, cluster, sets.stored, pins).value);
  const bool are_few = scores <= kFew * static_cast<double>(cluster.node.device.memory.value);
  if (are_few && *floors.recomputed <= *floors.fused) return {stored};
  return {stored, fused};
}

std::string_view library_of(const Cluster& cluster) {
  return has_own_kernels(cluster) ? "cuDNN" : "FlashAttention";
}

std::string no_kernel_words(const KernelSet& fused, std::int64_t head_size,
                            const Cluster& cluster) {
  return fmt::format("{} has no fused attention for heads of {} in {} on {}", library_of(cluster),
                     head_size, fused.compute == DType::kF32 ? "fp32" : "16 bits",
                     cluster.node.device.name);
}

}  // namespace

std::vector<std::string> kernel_sets_tried(const ModelConfig& model, const Cluster& cluster,
                                           const Pins& pins) {
  const std::string usual = cluster.node.device.kernel_set;
  if (pins.has("/kernel_set")) return {pins.values().kernel_set};
  const KernelSet& own = find_kernel_set(usual);
  const KernelSet* const other = other_attention(own);
  if (own.runs_on != RunsOn::kCuda || other == nullptr) return {usual};
  if (!own.fused_attention && !has_own_kernels(cluster)) return {usual};
  const Pair sets = own.fused_attention ? Pair{own, *other} : Pair{*other, own};
  const std::int64_t head_size = widest_head(model);
  if (head_size > kLargestFusedHead) return {std::string(sets.stored.id)};
  if (library_takes(sets.fused, head_size, cluster)) return {usual};
  return better_of(model, sets, cluster, pins);
}

std::string attention_words(const Plan& plan, const ModelConfig& model, const Cluster& cluster) {
  const KernelSet& set = find_kernel_set(plan.kernel_set);
  const KernelSet* const other = other_attention(set);
  if (set.runs_on != RunsOn::kCuda || other == nullptr) return "";
  const Pair sets = set.fused_attention ? Pair{set, *other} : Pair{*other, set};
  const std::int64_t head_size = widest_head(model);
  const bool is_largest = head_size > kLargestFusedHead;
  if (!is_largest && library_takes(sets.fused, head_size, cluster)) return "";
  if (!set.fused_attention && plan.kernel_set == cluster.node.device.kernel_set) return "";
  const std::string lack = no_kernel_words(sets.fused, head_size, cluster);
  if (is_largest)
    return set.fused_attention
               ? fmt::format(
                     "NO KERNEL for attention: {}, nor has anyone above {}; {} stores its "
                     "scores",
                     lack, kLargestFusedHead, sets.stored.id)
               : fmt::format("scores of attention are stored: {}", lack);
  Pins pins;
  pins.set("/batch/sequence", plan.batch.sequence);
  const Floors floors = floors_of(model, sets, cluster, pins);
  if (!floors.fused || !floors.stored) return "";
  const double times = floors.fused->value / floors.stored->value;
  if (!set.fused_attention)
    return fmt::format(
        "scores of attention are stored: {}, and with zplan's own on vector units "
        "({}) kernels take {:.2g} times as long",
        lack, sets.fused.id, times);
  return fmt::format(
      "SLOW attention on vector units: {}; with {}, which stores scores, kernels "
      "take {:.2g} times as long",
      lack, sets.stored.id, 1 / times);
}

std::string kernel_set_words(const Plan& plan, const ModelConfig& model, const Cluster& cluster) {
  const DeviceProfile& device = cluster.node.device;
  const std::string attention = attention_words(plan, model, cluster);
  if (!attention.empty()) return fmt::format("{}: {}", plan.kernel_set, attention);
  if (plan.kernel_set != device.kernel_set)
    return fmt::format("{} is a decision of the plan: the usual kernel set of {} is {}",
                       plan.kernel_set, device.name, device.kernel_set);
  const KernelSet& set = find_kernel_set(plan.kernel_set);
  const std::int64_t head_size = widest_head(model);
  const bool has_fused =
      set.runs_on == RunsOn::kCuda && set.fused_attention && library_takes(set, head_size, cluster);
  const std::string why = has_fused ? fmt::format(", and {} has fused attention for heads of {}",
                                                  library_of(cluster), head_size)
                                    : "";
  return fmt::format("{} is the usual kernel set of {}{}", plan.kernel_set, device.name, why);
}

}  // namespace zplan
