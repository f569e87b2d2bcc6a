// b micro-batch, s sequence, h hidden or the width of all heads, what is more, f ffn, a heads, V
// padded vocabulary, L layers, T = b s tokens. What tensor parallel ranks split is
// counted whole for each of them, states apart. With experts u is the width of one and the shared
// one, w that of all of a layer, with its router, and r how often a token goes through them,
// padded: at most in the worst case, else as often as the imbalance has it, and a row of each part.
#include "planner/plan/size_bounds.h"

#include <algorithm>

#include "planner/plan/limits.h"
#include "planner/plan/plan_schedule.h"
#include "planner/program/kernels/kernel_set.h"

namespace zplan {
namespace {

constexpr double kElementBytes = 8;     // f64, the largest
constexpr double kVocabularyPad = 128;  // rows per piece of a table at most [Shoeybi19 sec 3]
constexpr double kShardPad = 256;     // elements per unit and rank at most, or two blocks [derived]
constexpr double kCodePad = 1 << 15;  // two blocks that share a constant (planner/lower/layout.h)
constexpr double kUnitsPerLayer = 7;  // of a gather by operator and tile
constexpr double kUnitsElsewhere =
    11;  // three embeddings, two norms, three of a head, a copy, two of a tower
constexpr double kFlopPerElement = 32;   // of anything but a product [derived] above the table's
constexpr double kRingsPerRank = 8;      // gathered, full gradients, shards on their way [derived]
constexpr double kProjectorSteps = 32;   // kept of a tower's projectors [assumed] at most
constexpr double kSmallBytes = 1 << 27;  // per rank: workspaces, scalars, alignment

// Sizes as doubles: products of them cannot overflow.
struct Sizes {
  double h, f, a, V, L, s, T, replicas, tp, pp, pieces, tiles, shards, uncut, pad, rank;
  double u, w, r, experts;
  double stacks;  // 2 with an encoder, whose decoder has two attentions per layer
  double mtp;     // modules of multi-token prediction, whose layers L counts, too
  double tower;  // layers of a vision tower, which L counts, too; h, f, s and T are the larger ones
  double outside;  // parameters around these

  // With the factors of up to eight products, and those of each expert.
  double layer_elements() const {
    return stacks * 4 * h * h + 3 * h * w + stacks * 16 * h + 2 * w +
           rank * (24 * h + 4 * w + 2 * h * experts);
  }
  double largest_unit() const {
    return layer_elements() + V * h + s * h + replicas * pad + outside;
  }
  // Flat and padded; tied embeddings are held by the first and the last stage.
  double model_elements() const {
    const double tables = mtp > 0 ? 3 : 2;
    return L * layer_elements() + tables * V * h + V + tp * outside +
           mtp * tp * (2 * h * h + 6 * h) + tp * h * (h + 4) + stacks * (2 * s * h + 4 * h) +
           stacks * (kUnitsPerLayer * L + kUnitsElsewhere) * tiles * replicas * tp * pad +
           stacks * tp *
               (L * (16 * h + uncut + rank * (24 * h + 4 * f + 2 * h * experts)) + 2 * s * h +
                4 * h);
  }
};

double times_routed(const Plan& plan, const ModelShape& model) {
  const auto choices = static_cast<double>(model.experts_per_token),
             ep = static_cast<double>(plan.parallel.ep);
  const bool has_room_for_all = plan.expert_imbalance == 0 || plan.capacity_factor > 0;
  const double busiest = has_room_for_all ? ep : std::min(ep, std::max(1.0, plan.expert_imbalance));
  const double rows_of_parts = ep * static_cast<double>(plan.parallel.tp);
  return choices * busiest + rows_of_parts / static_cast<double>(plan.rank_tokens());
}

Sizes sizes_of(const Plan& plan, const ModelShape& model) {
  const auto real = [](std::int64_t n) { return static_cast<double>(n); };
  const Batch& batch = plan.batch;
  const double tables = real(plan.parallel.tp) * real(plan.gather.tiles());
  const std::int64_t ffn = std::max({model.ffn, model.expert_ffn, model.vision_ffn});
  const std::int64_t tokens = std::max(batch.sequence, model.vision_patches);
  return {.h = real(std::max({model.hidden, model.attention, model.vision_hidden})),
          .f = real(ffn),
          .a = real(model.heads),
          .V = real(model.vocab) + kVocabularyPad * tables,
          .L = real(model.layers + model.mtp_layers + model.vision_layers),
          .s = real(tokens),
          .T = real(batch.micro_batch) * real(tokens),
          .replicas = real(plan.replicas()),
          .tp = real(plan.parallel.tp),
          .pp = real(plan.parallel.pp),
          .pieces = real(plan.pieces()),
          .tiles = real(plan.gather.tiles()),
          .shards = real(plan.shards()),
          .uncut = real(model.uncut) + real(model.experts) * real(model.hidden + 1),
          .pad = std::max(
              {kShardPad, 2 * real(plan.optimizer.block), plan.train.has_codes() ? kCodePad : 0.0}),
          .rank = plan.train.has_lora() ? real(plan.train.rank) : 0,
          .u = real(ffn) + real(model.shared_ffn),
          .w = std::max(real(std::max(model.ffn, model.vision_ffn)),
                        real(model.expert_ffn) * real(model.experts)) +
               real(model.shared_ffn) + real(model.experts),
          .r = model.experts > 0 ? times_routed(plan, model) : 0,
          .experts = real(model.experts),
          .stacks = model.encoder_layers > 0 ? 2.0 : 1.0,
          .mtp = real(model.mtp_layers),
          .tower = real(model.vision_layers),
          .outside = real(model.vision_outside)};
}

// Of all ranks, in elements: parameters, gradients, master copy and two moments [Rajbhandari20
// sec 5], whole on each replica or sharded over them, and secondary copies [Wang23 sec 3.2].
// Factored moments are whole on each and fewer than parameters.
double state_elements(const Plan& plan, const Sizes& z) {
  const auto copies = [&](int sharded_from) {
    return plan.zero_stage >= sharded_from ? z.replicas / z.shards : z.replicas;
  };
  const double params =
      plan.zero_stage == 3 ? z.replicas / plan.shards_of_parameters() : z.replicas;
  const double secondary = plan.secondary > 0 ? z.replicas / plan.secondary : 0;
  const double held =
      plan.delayed_update ? 2 * copies(2) + copies(1) : held_gradients(plan) * copies(2);
  const double versions = 1 + older_versions(plan, 0);  // of parameters; the first has the most
  const double factored = plan.optimizer.row().matrices.factored ? z.replicas : 0;
  return z.model_elements() * (versions * params + secondary + held + 4 * copies(1) + factored);
}

// Of one rank, in elements. A stage has its layers and 2 slots of each chunk per micro-batch in
// flight [Narayanan21 sec 2.2].
double activation_elements(const Plan& plan, const Sizes& z) {
  const double scores = find_kernel_set(plan.kernel_set).fused_attention ? 0 : 3 * z.a * z.s;
  const double routed = z.r * (6 * z.h + 6 * z.f + 4 * z.rank + 8) + 4 * z.experts;
  // statistics are below one h
  const double one_layer = z.T * (z.stacks * (18 * z.h + scores) + 3 * z.u + routed + 16 * z.rank);
  const double per_slot = plan.all_full() ? 2 * z.T * z.h : one_layer;
  const double layers = plan.stage_layers.empty() ? z.L / z.pp + z.pieces / z.pp : z.L;
  // logits, statistics of their pieces, final norm, tokens, what a tile adds
  const double ends =
      z.T * (1 + z.mtp) * (z.V + 6 * z.tp * z.tiles + z.stacks * 10 * z.h + kProjectorSteps * z.f);
  const double at_work = 3.0 + plan.checkpoint_layers;  // layers of one backward
  return (layers + z.tower + 2 * z.pieces / z.pp) * most_in_flight(plan) * per_slot +
         at_work * one_layer + ends;
}

}  // namespace

double flops_bound(const Plan& plan, const ModelShape& model) {
  const Sizes z = sizes_of(plan, model);
  const double widest = std::max(z.f, z.rank);
  const double product = 2 * z.T * z.h * (3 * z.h + 2 * std::max(1.0, z.r) * widest + z.u + z.V);
  const double attention = 6 * z.T * z.h * (z.s + 1);  // backward over the whole square
  const double rows = 3 * z.h + 2 * z.f + z.V + z.a * z.s + z.r * (2 * z.h + 2 * z.f) + z.experts;
  const double elementwise = kFlopPerElement * (z.T * rows + z.largest_unit());
  // Muon: of sides of at most h and of 3 h + 2 f [derived] newton_schulz of kernel_table.cpp.
  const bool has_muon = plan.optimizer.row().matrices.orthogonal;
  const double orthogonal = has_muon ? 10 * z.h * z.h * (7 * z.h + 4 * z.f) : 0;
  return product + attention + elementwise + orthogonal;
}

double total_bytes_bound(const Plan& plan, const ModelShape& model) {
  const Sizes z = sizes_of(plan, model);
  const double slots = (static_cast<double>(plan.prefetch) + 2) * plan.unit_layers();
  const double rings = kRingsPerRank * slots * z.largest_unit();
  const double per_rank = kElementBytes * (activation_elements(plan, z) + rings) + kSmallBytes;
  return kElementBytes * state_elements(plan, z) +
         static_cast<double>(plan.parallel.ranks()) * per_rank;
}

}  // namespace zplan
