// b micro-batch, s sequence, h hidden, f ffn, V padded vocabulary, L layers, T = b s tokens.
#include "planner/plan/size_bounds.h"

#include "planner/plan/limits.h"

namespace zplan {
namespace {

constexpr double kElementBytes = 8;      // f64, the largest
constexpr double kVocabularyPad = 128;   // rows at most [Shoeybi19 sec 3]
constexpr double kShardPad = 256;        // elements per unit and rank at most [derived]
constexpr double kUnitsPerLayer = 4;     // of a gather by operator
constexpr double kUnitsElsewhere = 5;    // token, position, head embeddings, final norm, and a copy
constexpr double kFlopPerElement = 32;   // of anything but a product [derived] above the table's
constexpr double kRingsPerRank = 8;      // gathered, full gradients, shards on their way [derived]
constexpr double kSmallBytes = 1 << 27;  // per rank: workspaces, scalars, alignment

// Sizes as doubles: products of them cannot overflow.
struct Sizes {
  double h, f, V, L, s, T, dp, pp;

  double layer_elements() const { return 4 * h * h + 2 * h * f + 9 * h + f; }
  double largest_unit() const { return layer_elements() + V * h + s * h + dp * kShardPad; }
  // Flat and padded; tied embeddings are held by the first and the last stage.
  double model_elements() const {
    return L * layer_elements() + 2 * V * h + s * h + 2 * h +
           (kUnitsPerLayer * L + kUnitsElsewhere) * dp * kShardPad;
  }
};

Sizes sizes_of(const Plan& plan, const ModelShape& model) {
  const auto real = [](std::int64_t n) { return static_cast<double>(n); };
  const Batch& batch = plan.batch;
  return {
      real(model.hidden),     real(model.ffn),       real(model.vocab) + kVocabularyPad,
      real(model.layers),     real(batch.sequence),  real(batch.micro_batch) * real(batch.sequence),
      real(plan.parallel.dp), real(plan.parallel.pp)};
}

// Of all ranks, in elements: parameters, gradients, master copy and two moments [Rajbhandari20
// sec 5], whole on each replica or sharded over them.
double state_elements(const Plan& plan, const Sizes& z) {
  const auto copies = [&](int sharded_from) { return plan.zero_stage >= sharded_from ? 1 : z.dp; };
  return z.model_elements() * (copies(3) + copies(2) + 3 * copies(1));
}

// Of one rank, in elements. A stage has up to L/pp + 2 slots per micro-batch, and up to pp
// micro-batches in flight [Narayanan21 sec 2.2].
double activation_elements(const Plan& plan, const Sizes& z) {
  const double one_layer = z.T * (12 * z.h + 2 * z.f);  // statistics are below one h
  const double per_slot = plan.recompute == Recompute::kFull ? 2 * z.T * z.h : one_layer;
  const double ends = z.T * (z.V + 8 * z.h);  // logits, final norm, tokens
  return (z.L + 2 * z.pp) * per_slot + 4 * one_layer + ends;
}

}  // namespace

double flops_bound(const Plan& plan, const ModelShape& model) {
  const Sizes z = sizes_of(plan, model);
  const double product = 2 * z.T * z.h * (3 * z.h + z.f + z.V);
  const double attention = 5 * z.T * z.h * (z.s + 1);  // backward, causal [Dao22 sec 3]
  const double elementwise = kFlopPerElement * (z.T * (3 * z.h + z.f + z.V) + z.largest_unit());
  return product + attention + elementwise;
}

double total_bytes_bound(const Plan& plan, const ModelShape& model) {
  const Sizes z = sizes_of(plan, model);
  const double rings = kRingsPerRank * (static_cast<double>(plan.prefetch) + 2) * z.largest_unit();
  const double per_rank = kElementBytes * (activation_elements(plan, z) + rings) + kSmallBytes;
  return kElementBytes * state_elements(plan, z) + z.dp * z.pp * per_rank;
}

}  // namespace zplan
