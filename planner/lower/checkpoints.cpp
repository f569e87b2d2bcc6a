#include "planner/lower/checkpoints.h"

namespace zplan {
namespace {

// Compute fills one slot while the copy of the other is on its way. [derived]
constexpr std::int32_t kRingSlots = 2;

}  // namespace

Checkpoints::Checkpoints(Stage& stage, const Chunk& chunk)
    : s_(stage), chunk_(chunk), transfers_(stage), shape_{s_.local_tokens(), s_.h()} {
  const bool cut = s_.plan.partition_activations;
  const bool away = chunk.layers > 0 && (cut || s_.plan.placement.activations != Tier::kGpu);
  boundary_ =
      s_.out.add({.name = chunk.prefix() + "layer_input",
                  .slot_size = size_of(s_.compute()) * shape_.elements(),
                  .slots = away ? kRingSlots : (chunk_.layers + 1) * chunk_.in_flight,
                  .category = s_.recomputes_all() ? Category::kCheckpoints : Category::kActivations,
                  .dtype = s_.compute()});
  if (!away) return;
  if (cut) shape_ = {s_.tokens() / s_.tp(), s_.h()};
  away_ = s_.out.add({.name = chunk.prefix() + "checkpoint",
                      .slot_size = size_of(s_.compute()) * shape_.elements(),
                      .slots = chunk_.layers * chunk_.in_flight,
                      .tier = s_.plan.placement.activations,
                      .category = Category::kCheckpoints,
                      .dtype = s_.compute()});
}

View Checkpoints::boundary(std::int32_t shift) const {
  SlotExpr slot = s_.layer_slot(chunk_.first_layer, away_ ? 0 : chunk_.layers + 1);
  slot.base += shift;
  return view_of(boundary_, s_.compute(), {s_.local_tokens(), s_.h()}, slot);
}

View Checkpoints::input_of(std::int32_t layer) const {
  View v = boundary(layer);
  v.slot.per_layer = 0;
  return v;
}

View Checkpoints::home() const {
  return view_of(*away_, s_.compute(), shape_, s_.layer_slot(chunk_.first_layer, chunk_.layers));
}

Ring Checkpoints::ring(const char* name) const {
  return {name, size_of(s_.compute()) * shape_.elements(), kRingSlots, Category::kCheckpoints};
}

Ordinal Checkpoints::saved() const {
  return {s_.out.member() - chunk_.first_layer, s_.unit_layers()};
}

Ordinal Checkpoints::loaded() const {
  const std::int32_t last = chunk_.first_layer + chunk_.layers - 1;
  return {last - s_.out.member(), -s_.unit_layers()};
}

void Checkpoints::save() {
  if (!away_) return;
  View part = input();
  if (s_.plan.partition_activations) {
    part.shape = shape_;
    part = s_.own_part(part, s_.tensor_group().axes);
  }
  if (transfers_.tier_of(home()) == Tier::kGpu) {
    s_.out.copy({Phase::kForward, Part::kBoundary, Action::kMove}, part, home());
  } else {
    transfers_.send(Phase::kForward, Part::kBoundary, part, home(), ring("checkpoint.saved"),
                    saved());
  }
}

View Checkpoints::load() {
  if (!away_) return input();
  const View part = transfers_.bring(Phase::kRecompute, Part::kBoundary, home(), Tier::kGpu,
                                     ring("checkpoint.loaded"), loaded());
  if (!s_.plan.partition_activations) return part;
  const Shape whole{s_.tokens(), s_.h()};
  const BufferId id = s_.body.get({.name = "checkpoint.gathered",
                                   .slot_size = size_of(s_.compute()) * whole.elements(),
                                   .slots = kRingSlots,
                                   .category = Category::kCheckpoints,
                                   .dtype = s_.compute()});
  const View result = view_of(id, s_.compute(), whole, loaded().slot());
  s_.out.collective({Phase::kRecompute, Part::kBoundary, Action::kGatherRanks}, Lane::kCommTensor,
                    CollectiveKind::kAllGather, s_.tensor_group(), part, result);
  return result;
}

}  // namespace zplan
