#include "planner/search/bytes_bound.h"

#include <algorithm>
#include <cmath>

#include "models/model_formulas.h"
#include "planner/program/kernel_set.h"

namespace zplan {
namespace {

// Bytes, elements and their factors. [derived] exact up to 2^53, and no product of sizes overflows.
using Amount = double;

// Of checkpoints on their way to or from the host: compute fills one while the other moves.
constexpr Amount kRingSlots = 2;

Amount amount(std::int64_t n) { return static_cast<Amount>(n); }
Amount amount(Bytes bytes) { return amount(bytes.value); }
Amount amount_of(DType dtype) { return amount(size_of(dtype)); }

Bytes saturated(Amount bytes) {
  if (bytes >= amount(kMostBytes)) return kMostBytes;
  return {static_cast<std::int64_t>(bytes)};
}

class StageBound {
 public:
  StageBound(const Plan& plan, const ModelConfig& model, std::int64_t stage)
      : p_(plan), kernels_(find_kernel_set(plan.kernel_set)) {
    const std::int64_t pp = p_.parallel.pp;
    first_ = stage == 0;
    last_ = stage == pp - 1;
    tied_ = model.tied_embeddings;
    layers_ = amount(model.layers / pp + (stage < model.layers % pp ? 1 : 0));
    in_flight_ = amount(std::min(pp - stage, p_.micro_steps()));
    tokens_ = amount(p_.batch.micro_batch) * amount(p_.batch.sequence);
    element_ = amount_of(kernels_.compute);
    h_ = amount(model.hidden);
    f_ = amount(model.ffn);
    heads_ = amount(model.heads);
    vocabulary_ = amount(padded_vocab(model, 1));
    layer_elements_ = amount(layer_parameter_count(model));
  }

  TierBytes bytes() const {
    const Amount gpu =
        states(Tier::kGpu) + amount(kernels_.workspace) +
        std::max({late_gradients(Tier::kGpu, true), layer_backward(), head_backward()});
    const Amount cpu =
        states(Tier::kCpu) + std::max(late_gradients(Tier::kCpu, true),
                                      late_gradients(Tier::kCpu, false) + host_checkpoints());
    TierBytes result{};
    result[static_cast<std::size_t>(Tier::kGpu)] = saturated(gpu);
    result[static_cast<std::size_t>(Tier::kCpu)] = saturated(cpu);
    return result;
  }

 private:
  Amount tensor(Amount width) const { return element_ * tokens_ * width; }  // [T, width]

  // Parameters the stage holds, vocabulary padded, shards not.
  Amount elements() const {
    Amount n = layers_ * layer_elements_;
    if (first_) n += vocabulary_ * h_ + amount(p_.batch.sequence) * h_;
    if (last_) n += 2 * h_;
    if (last_ && (!tied_ || !first_)) n += vocabulary_ * h_;
    return n;
  }
  // Elements each rank holds of n that ZeRO cuts from `stage` on.
  Amount share(Amount n, std::int32_t stage) const {
    return p_.zero_stage >= stage ? std::ceil(n / p_.parallel.dp) : n;
  }

  // Parameters and optimizer in a tier: these always persist.
  Amount states(Tier tier) const {
    const StatePlacement& home = p_.placement;
    const PrecisionRecipe& r = p_.precision;
    Amount sum = 0;
    if (home.params == tier) sum += amount_of(r.param) * share(elements(), 3);
    if (home.optimizer == tier) {
      sum += amount_of(r.moments) * 2 * share(elements(), 1);
      if (r.separate_master || home.optimizer != home.params)
        sum += amount_of(r.master) * share(elements(), 1);
    }
    return sum;
  }

  // Gradients at home: all at the update; with several micro-steps also before. Those of one
  // micro-step fill while backward runs; the layers' share one buffer.
  Amount late_gradients(Tier tier, bool update) const {
    if (p_.placement.grads != tier) return 0;
    const bool all = update || p_.micro_steps() > 1;
    const Amount in_loop = layers_ > 1 ? layers_ * layer_elements_ : 0;
    return amount_of(p_.precision.grad) * share(all ? elements() : in_loop, 2);
  }

  bool gathers() const {
    return p_.placement.params == Tier::kCpu || (p_.zero_stage == 3 && p_.parallel.dp > 1);
  }
  // Backward writes gradients beside their home.
  bool moves_gradients() const {
    return p_.placement.grads == Tier::kCpu || (p_.zero_stage >= 2 && p_.parallel.dp > 1);
  }
  Amount largest_unit() const {
    if (p_.gather == GatherUnit::kLayer) return layer_elements_;
    return std::max({3 * h_ * h_ + 5 * h_, h_ * h_ + h_, h_ * f_ + f_ + 2 * h_, f_ * h_ + h_});
  }
  // Slots for units in use and on their way, of parameters and of gradients.
  Amount unit_rings() const {
    Amount slot = 0;
    if (gathers()) slot += amount_of(p_.precision.param) * largest_unit();
    if (moves_gradients()) slot += amount_of(p_.precision.grad) * largest_unit();
    return slot * (p_.prefetch + 1);
  }

  // Per token of a layer, between its forward and its backward: two LayerNorms' statistics and the
  // attention's log-sum-exp; norm1, attention, middle, norm2 [h], qkv [3h], fc1 [f].
  Amount layer_activations() const {
    const Amount statistics = tokens_ * (4 + heads_);
    return tensor(7 * h_ + f_) + amount_of(kernels_.statistics) * statistics;
  }
  // What forward leaves for the backward of the micro-batches in flight.
  Amount kept() const {
    if (p_.placement.activations == Tier::kCpu) return tensor(kRingSlots * h_);
    const Amount inputs = tensor(h_) * (layers_ + 1) * in_flight_;
    if (p_.recompute == Recompute::kFull) return inputs;
    return inputs + (layer_activations() + tensor(f_)) * layers_ * in_flight_;
  }
  Amount host_checkpoints() const {
    if (p_.placement.activations != Tier::kCpu) return 0;
    return tensor(h_) * layers_ * in_flight_;
  }

  // While backward goes through the MLP: the gradient of the layer's output and of its inner
  // activation beside the replayed or kept layer.
  Amount layer_backward() const {
    Amount sum = late_gradients(Tier::kGpu, false) + kept() + unit_rings();
    sum += tensor(h_);
    if (p_.recompute == Recompute::kFull) sum += layer_activations() + tensor(f_);
    if (p_.recompute == Recompute::kNone && layers_ > 1) sum += tensor(f_);
    return sum;
  }

  // While the gradient of the logits becomes that of the last layer's output.
  Amount head_backward() const {
    if (!last_) return 0;
    const Amount persistent = p_.micro_steps() > 1 ? late_gradients(Tier::kGpu, false) : 0;
    Amount sum = persistent + kept() + tensor(vocabulary_ + h_);
    if (gathers()) sum += amount_of(p_.precision.param) * vocabulary_ * h_;
    if (moves_gradients()) sum += amount_of(p_.precision.grad) * vocabulary_ * h_;
    return sum;
  }

  const Plan& p_;
  const KernelSet& kernels_;
  bool first_ = false, last_ = false, tied_ = false;
  Amount layers_ = 0, in_flight_ = 1, tokens_ = 0, element_ = 0;
  Amount h_ = 0, f_ = 0, heads_ = 0, vocabulary_ = 0, layer_elements_ = 0;
};

}  // namespace

std::vector<TierBytes> bytes_bound(const Plan& plan, const ModelConfig& model) {
  std::vector<TierBytes> result;
  for (std::int32_t stage = 0; stage < plan.parallel.pp; ++stage)
    result.push_back(StageBound(plan, model, stage).bytes());
  return result;
}

}  // namespace zplan
