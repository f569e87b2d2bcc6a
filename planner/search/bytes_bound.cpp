#include "planner/search/bytes_bound.h"

#include <algorithm>
#include <cmath>
#include <span>

#include "models/model_formulas.h"
#include "planner/program/job/limits.h"
#include "planner/program/kernels/kernel_set.h"

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

// What all stages have in common, and from it the bytes of each.
class PlanBound {
 public:
  PlanBound(const Plan& plan, const ModelConfig& model)
      : p_(plan), kernels_(find_kernel_set(plan.kernel_set)), model_(model) {
    tp_ = amount(p_.parallel.tp);
    h_ = amount(model.hidden);
    tokens_ = amount(p_.rank_tokens());
    element_ = amount_of(kernels_.compute);
    written_ =
        p_.precision.grad_cast == GradientCast::kNone ? amount_of(p_.precision.grad) : element_;
    vocabulary_ = amount(padded_vocab(model, p_.parallel.tp)) / tp_;
    layer_elements_ = amount(layer_parameter_count(model)) / tp_;
    positions_ = model.positions() == 0 ? 0 : amount(p_.batch.sequence) * h_ / tp_;
    boundary_ = tensor(p_.partition_activations ? h_ / tp_ : wide());
    replayed_ = layer_activations();
    inner_ = tensor(amount(model.up_width()) / tp_);
    gelu_ = tensor(amount(model.ffn) / tp_);
    unit_rings_ = unit_rings();
  }

  TierBytes bytes(std::span<const PieceInFlight> pieces) const {
    Stage at;
    for (const PieceInFlight& piece : pieces) {
      const Amount layers = amount(p_.layers_of_piece(model_.layers, piece.piece));
      at.first |= piece.piece == 0;
      at.last |= piece.piece == p_.pieces() - 1;
      at.layers += layers;
      at.least_layers = std::min(at.least_layers, layers);
      at.kept_layers += layers * amount(piece.micro_batches);
    }
    TierBytes result{};
    for (const Tier tier : {Tier::kCpu, Tier::kNvme}) {
      const Amount fullest = std::max(late_gradients(at, tier, true),
                                      late_gradients(at, tier, false) + checkpoints_away(at, tier));
      result[static_cast<std::size_t>(tier)] = saturated(states(at, tier) + fullest);
    }
    const Amount gpu =
        states(at, Tier::kGpu) + amount(kernels_.workspace) +
        std::max({late_gradients(at, Tier::kGpu, true), layer_backward(at), head_backward(at)});
    result[static_cast<std::size_t>(Tier::kGpu)] = saturated(gpu);
    return result;
  }

 private:
  struct Stage {
    bool first = false, last = false;
    Amount layers = 0;
    Amount least_layers = kMaxLayers;  // of a piece
    Amount kept_layers = 0;            // of every micro-batch in flight
  };

  Amount tensor(Amount width) const { return element_ * tokens_ * width; }  // [T, width]
  // Width of what norms and residual sums read and write.
  Amount wide() const { return p_.parallel.sequence_parallel ? h_ / tp_ : h_; }

  // Parameters the stage holds, vocabulary padded, shards not.
  Amount elements(const Stage& at) const {
    Amount n = at.layers * layer_elements_;
    if (at.first) n += vocabulary_ * h_ + positions_;
    if (at.last && (!model_.tied_embeddings || !at.first)) n += vocabulary_ * h_;
    return n;
  }
  // Elements each rank holds of n that ZeRO cuts from `stage` on.
  Amount share(Amount n, std::int32_t stage) const {
    return p_.zero_stage >= stage ? std::ceil(n / p_.shards()) : n;
  }

  Amount parameters(const Stage& at) const {
    return p_.zero_stage == 3 ? std::ceil(elements(at) / p_.shards_of_parameters()) : elements(at);
  }

  // Parameters and optimizer in a tier: these always persist.
  Amount states(const Stage& at, Tier tier) const {
    const StatePlacement& home = p_.placement;
    Amount sum = 0;
    if (home.params == tier) sum += amount_of(p_.precision.param) * parameters(at);
    sum += amount(p_.optimizer_bytes(tier)) * share(elements(at), 1);
    return sum;
  }

  // Whether every piece of the model has several units of layers, whose states share one buffer.
  bool loops(const Stage& at) const { return at.least_layers > amount(p_.unit_layers()); }

  // Gradients at home: all at the update; with several micro-steps also before. Those of one
  // micro-step fill while backward runs; the layers' share one buffer.
  Amount late_gradients(const Stage& at, Tier tier, bool update) const {
    if (p_.placement.grads != tier) return 0;
    const bool all = update || p_.micro_steps() > 1;
    const Amount in_loop = loops(at) ? at.layers * layer_elements_ : 0;
    return amount_of(p_.precision.grad) * share(all ? elements(at) : in_loop, 2);
  }

  // The layers' parameters in secondary groups, from forward to backward [Wang23 sec 3.2].
  Amount secondary(const Stage& at) const {
    return p_.secondary == 0 ? 0 : element_ * at.layers * layer_elements_ / p_.secondary;
  }

  bool gathers() const {
    return p_.placement.params != Tier::kGpu || (p_.zero_stage == 3 && p_.shards() > 1);
  }
  // Backward writes gradients beside their home.
  bool moves_gradients() const {
    return p_.placement.grads != Tier::kGpu || (p_.zero_stage >= 2 && p_.shards() > 1);
  }
  Amount largest_unit() const {
    if (p_.gather.by_layer()) return layer_elements_ * amount(p_.gather.layers());
    const Amount mlp = h_ * amount(std::max(model_.up_width(), model_.ffn));
    return std::max(amount(qkv_parameter_count(model_)), mlp) / tp_ / amount(p_.gather.tiles());
  }
  // Slots for units in use and on their way, of parameters and of gradients.
  Amount unit_rings() const {
    const Amount params = gathers() ? element_ * largest_unit() : 0;
    const Amount gradients = moves_gradients() ? written_ * largest_unit() : 0;
    // A backward in two parts needs parameters for the first and writes gradients in the second.
    const Amount slot =
        has_parts_of_backward(p_) ? std::max(params, gradients) : params + gradients;
    return slot * (p_.prefetch + 1);
  }

  // Of a layer, between its forward and its backward: norm1, middle and norm2, h wide; qkv and
  // attention; fc1. What a norm or a fused attention keeps beside is left out.
  Amount layer_activations() const {
    const Amount cut = amount(model_.qkv_width() + model_.attention_width() + model_.up_width());
    return tensor(3 * wide() + cut / tp_);
  }
  // What forward leaves for the backward of the micro-batches in flight.
  Amount kept(const Stage& at) const {
    if (p_.placement.activations != Tier::kGpu) return kRingSlots * boundary_;
    if (!keeps_layers()) return boundary_ * at.kept_layers;
    return (boundary_ + replayed_ + gelu_) * at.kept_layers;
  }
  // Every layer's activations: where some are recomputed, probabilities apart, that is not claimed.
  bool keeps_layers() const {
    return std::none_of(p_.recompute.begin(), p_.recompute.end(),
                        [](const RecomputeRun& run) { return run.mode >= Recompute::kFull; });
  }
  Amount checkpoints_away(const Stage& at, Tier tier) const {
    if (p_.placement.activations != tier) return 0;
    return boundary_ * at.kept_layers;
  }

  // While backward goes through the MLP: the gradient of the layer's output and of its inner
  // activation beside the replayed or kept layer.
  Amount layer_backward(const Stage& at) const {
    Amount sum = late_gradients(at, Tier::kGpu, false) + kept(at) + unit_rings_ + tensor(wide());
    if (p_.all_full()) sum += replayed_ + inner_;
    if (loops(at)) sum += secondary(at);
    return sum;
  }

  // While the gradient of the logits becomes that of the last layer's output.
  Amount head_backward(const Stage& at) const {
    if (!at.last) return 0;
    const Amount persistent = p_.micro_steps() > 1 ? late_gradients(at, Tier::kGpu, false) : 0;
    Amount sum =
        persistent + kept(at) + secondary(at) + tensor(vocabulary_ / p_.head_chunks + wide());
    if (gathers()) sum += element_ * vocabulary_ * h_;
    if (moves_gradients()) sum += written_ * vocabulary_ * h_;
    return sum;
  }

  const Plan& p_;
  const KernelSet& kernels_;
  const ModelConfig& model_;
  Amount tp_ = 1, h_ = 0, tokens_ = 0, vocabulary_ = 0;
  Amount element_ = 0, written_ = 0;  // of what kernels read, of the gradients they write
  Amount layer_elements_ = 0, positions_ = 0;
  // Bytes: one layer's input, the activations of a layer, those before and after the activation
  // function, the rings.
  Amount boundary_ = 0, replayed_ = 0, inner_ = 0, gelu_ = 0, unit_rings_ = 0;
};

}  // namespace

std::vector<TierBytes> bytes_bound(const Plan& plan, const ModelConfig& model) {
  return bytes_bound(plan, model, in_flight_of_stages(plan));
}

std::vector<TierBytes> bytes_bound(const Plan& plan, const ModelConfig& model,
                                   const StagePieces& stages) {
  const PlanBound bound(plan, model);
  std::vector<TierBytes> result;
  result.reserve(stages.size());
  for (const std::vector<PieceInFlight>& pieces : stages) result.push_back(bound.bytes(pieces));
  return result;
}

}  // namespace zplan
