#include "planner/search/bytes_bound.h"

#include <algorithm>

#include "models/model_formulas.h"
#include "planner/program/kernel_set.h"

namespace zplan {
namespace {

// Of checkpoints on their way to or from the host: compute fills one while the other moves.
constexpr std::int64_t kRingSlots = 2;

class StageBound {
 public:
  StageBound(const Plan& plan, const ModelConfig& model, std::int64_t stage)
      : p_(plan), m_(model), kernels_(find_kernel_set(plan.kernel_set)) {
    const std::int64_t pp = p_.parallel.pp;
    first_ = stage == 0;
    last_ = stage == pp - 1;
    layers_ = m_.layers / pp + (stage < m_.layers % pp ? 1 : 0);
    in_flight_ = std::min(pp - stage, p_.micro_steps());
    tokens_ = p_.batch.micro_batch * p_.batch.sequence;
    element_ = size_of(kernels_.compute);
  }

  TierBytes bytes() const {
    TierBytes result{};
    at(result, Tier::kGpu) =
        states(Tier::kGpu) + kernels_.workspace +
        std::max({late_gradients(Tier::kGpu, true), layer_backward(), head_backward()});
    at(result, Tier::kCpu) =
        states(Tier::kCpu) + std::max(late_gradients(Tier::kCpu, true),
                                      late_gradients(Tier::kCpu, false) + host_checkpoints());
    return result;
  }

 private:
  static Bytes& at(TierBytes& bytes, Tier tier) { return bytes[static_cast<std::size_t>(tier)]; }
  Bytes tensor(std::int64_t width) const { return element_ * (tokens_ * width); }  // [T, width]

  // Parameters the stage holds, vocabulary padded, shards not.
  std::int64_t elements() const {
    const std::int64_t h = m_.hidden;
    std::int64_t n = layers_ * layer_parameter_count(m_);
    if (first_) n += vocabulary() * h + p_.batch.sequence * h;
    if (last_) n += 2 * h;
    if (last_ && (!m_.tied_embeddings || !first_)) n += vocabulary() * h;
    return n;
  }
  std::int64_t vocabulary() const { return padded_vocab(m_, 1); }
  // Elements each rank holds of n that ZeRO cuts from `stage` on.
  std::int64_t share(std::int64_t n, std::int32_t stage) const {
    return p_.zero_stage >= stage ? ceil_div(n, p_.parallel.dp) : n;
  }

  // Parameters and optimizer in a tier: these always persist.
  Bytes states(Tier tier) const {
    const StatePlacement& home = p_.placement;
    const PrecisionRecipe& r = p_.precision;
    Bytes sum{0};
    if (home.params == tier) sum += size_of(r.param) * share(elements(), 3);
    if (home.optimizer == tier) {
      sum += size_of(r.moments) * (2 * share(elements(), 1));
      if (r.separate_master || home.optimizer != home.params)
        sum += size_of(r.master) * share(elements(), 1);
    }
    return sum;
  }

  // Gradients at home: all at the update; with several micro-steps also before. Those of one
  // micro-step fill while backward runs; the layers' share one buffer.
  Bytes late_gradients(Tier tier, bool update) const {
    if (p_.placement.grads != tier) return {0};
    const bool all = update || p_.micro_steps() > 1;
    const std::int64_t in_loop = layers_ > 1 ? layers_ * layer_parameter_count(m_) : 0;
    return size_of(p_.precision.grad) * share(all ? elements() : in_loop, 2);
  }

  bool gathers() const {
    return p_.placement.params == Tier::kCpu || (p_.zero_stage == 3 && p_.parallel.dp > 1);
  }
  // Backward writes gradients beside their home.
  bool moves_gradients() const {
    return p_.placement.grads == Tier::kCpu || (p_.zero_stage >= 2 && p_.parallel.dp > 1);
  }
  std::int64_t largest_unit() const {
    const std::int64_t h = m_.hidden, f = m_.ffn;
    if (p_.gather == GatherUnit::kLayer) return layer_parameter_count(m_);
    return std::max({3 * h * h + 5 * h, h * h + h, h * f + f + 2 * h, f * h + h});
  }
  // Slots for units in use and on their way, of parameters and of gradients.
  Bytes unit_rings() const {
    Bytes slot{0};
    if (gathers()) slot += size_of(p_.precision.param) * largest_unit();
    if (moves_gradients()) slot += size_of(p_.precision.grad) * largest_unit();
    return slot * (p_.prefetch + 1);
  }

  // Per token of a layer, between its forward and its backward: two LayerNorms' statistics and the
  // attention's log-sum-exp; norm1, attention, middle, norm2 [h], qkv [3h], fc1 [f].
  Bytes layer_activations() const {
    const std::int64_t statistics = tokens_ * (4 + m_.heads);
    return tensor(7 * m_.hidden + m_.ffn) + size_of(kernels_.statistics) * statistics;
  }
  // What forward leaves for the backward of the micro-batches in flight.
  Bytes kept() const {
    if (p_.placement.activations == Tier::kCpu) return tensor(kRingSlots * m_.hidden);
    const Bytes inputs = tensor(m_.hidden) * ((layers_ + 1) * in_flight_);
    if (p_.recompute == Recompute::kFull) return inputs;
    return inputs + (layer_activations() + tensor(m_.ffn)) * (layers_ * in_flight_);
  }
  Bytes host_checkpoints() const {
    if (p_.placement.activations != Tier::kCpu) return {0};
    return tensor(m_.hidden) * (layers_ * in_flight_);
  }

  // While backward goes through the MLP: the gradient of the layer's output and of its inner
  // activation beside the replayed or kept layer.
  Bytes layer_backward() const {
    Bytes sum = late_gradients(Tier::kGpu, false) + kept() + unit_rings();
    sum += tensor(m_.hidden);
    if (p_.recompute == Recompute::kFull) sum += layer_activations() + tensor(m_.ffn);
    if (p_.recompute == Recompute::kNone && layers_ > 1) sum += tensor(m_.ffn);
    return sum;
  }

  // While the gradient of the logits becomes that of the last layer's output.
  Bytes head_backward() const {
    if (!last_) return {0};
    const Bytes persistent = p_.micro_steps() > 1 ? late_gradients(Tier::kGpu, false) : Bytes{0};
    Bytes sum = persistent + kept() + tensor(vocabulary() + m_.hidden);
    if (gathers()) sum += size_of(p_.precision.param) * (vocabulary() * m_.hidden);
    if (moves_gradients()) sum += size_of(p_.precision.grad) * (vocabulary() * m_.hidden);
    return sum;
  }

  const Plan& p_;
  const ModelConfig& m_;
  const KernelSet& kernels_;
  bool first_ = false, last_ = false;
  std::int64_t layers_ = 0, in_flight_ = 1, tokens_ = 0;
  Bytes element_{0};
};

}  // namespace

std::vector<TierBytes> bytes_bound(const Plan& plan, const ModelConfig& model) {
  std::vector<TierBytes> result;
  for (std::int32_t stage = 0; stage < plan.parallel.pp; ++stage)
    result.push_back(StageBound(plan, model, stage).bytes());
  return result;
}

}  // namespace zplan
