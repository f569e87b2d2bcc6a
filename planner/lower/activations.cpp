#include "planner/lower/activations.h"

namespace zplan {

Activations::Activations(Stage& stage, const Segment& segment, std::size_t number)
    : s_(stage),
      segment_(segment),
      prefix_(number == 0 ? "" : "run" + std::to_string(number) + ".") {
  keep();
}

// What backward reads of one layer, probabilities apart.
void Activations::results(LayerActivations& a, const MakeOf& of, const Make& rest) const {
  using enum LayerOperator;
  const std::int64_t t = s_.tokens();
  const std::int64_t local = s_.local_tokens();
  const DType x = s_.compute();
  const DType stat = s_.kernels.statistics;
  const bool means = s_.model.norm == Norm::kLayerNorm;
  a.norm1 = of(kNorm)("norm1", {local, s_.h()}, x, false);
  if (means) a.mean1 = of(kNorm)("mean1", {local}, stat, false);
  a.rstd1 = of(kNorm)("rstd1", {local}, stat, false);
  a.qkv = of(kQkv)("qkv", {t, s_.qkv_width()}, x, true);
  a.attention = of(kAttention)("attention", {t, s_.attention_width()}, x, true);
  if (s_.kernels.fused_attention)
    a.lse = of(kAttention)("lse", {s_.b(), s_.heads(), s_.s()}, stat, true);
  a.middle = of(kProjection)("middle", {local, s_.h()}, x, false);
  if (s_.plan.dropout) {
    a.mask1 = of(kProjection)("mask1", {local, s_.h()}, DType::kU8, false);
    a.mask2 = rest("mask2", {local, s_.h()}, DType::kU8, false);
  }
  a.norm2 = of(kNorm)("norm2", {local, s_.h()}, x, false);
  if (means) a.mean2 = of(kNorm)("mean2", {local}, stat, false);
  a.rstd2 = of(kNorm)("rstd2", {local}, stat, false);
  a.fc1 = of(kFc1)("fc1", {t, s_.up_width()}, x, true);
  a.gelu = of(kActivation)("gelu", {t, s_.ffn()}, x, true);
}

void Activations::probabilities(LayerActivations& a, const Make& make) const {
  if (s_.kernels.fused_attention) return;
  const Shape squares{s_.b(), s_.heads(), s_.s(), s_.s()};
  a.dropped = a.probs = make("probs", squares, s_.compute(), true);
  if (!s_.plan.dropout) return;
  a.probs_mask = make("probs.mask", squares, DType::kU8, true);
  a.dropped = make("probs.dropped", squares, s_.compute(), true);
}

// Each has a slot per layer, tile and micro-batch in flight.
Activations::Make Activations::by_layer() {
  return [this](const char* name, Shape shape, DType dtype, bool tiled) {
    const std::int32_t tiles = tiled ? s_.tiles() : 1;
    const std::int32_t per_micro = segment_.units * s_.unit_layers() * tiles;
    const auto [at, is_new] = kept_.try_emplace(name);
    if (is_new)
      at->second = s_.out.add({.name = prefix_ + name,
                               .slot_size = size_of(dtype) * shape.elements(),
                               .slots = per_micro * s_.in_flight,
                               .category = Category::kActivations,
                               .dtype = dtype});
    SlotExpr slot = s_.layer_slot(segment_.first_unit * s_.unit_layers(), per_micro);
    slot.base *= tiles;
    slot.per_layer *= tiles;
    slot.per_tile = tiles > 1 ? 1 : 0;
    return view_of(at->second, dtype, shape, slot);
  };
}

// Makes the buffers of what stays, before any body is emitted.
void Activations::keep() {
  if (replays_layer()) return;
  const Make none = [](const char*, Shape, DType, bool) { return View{}; };
  const Make stays = by_layer();
  LayerActivations a;
  results(
      a, [&](LayerOperator op) -> const Make& { return replays(op) ? none : stays; }, stays);
  if (!replays_attention() && !replays(LayerOperator::kAttention)) probabilities(a, stays);
}

Activations::Make Activations::within_body(std::string prefix) const {
  return
      [this, prefix = std::move(prefix)](const char* name, Shape shape, DType dtype, bool tiled) {
        const std::int32_t slots = tiled ? s_.tiles() : 1;
        const BufferId id = s_.body.get({.name = prefix + name,
                                         .slot_size = size_of(dtype) * shape.elements(),
                                         .slots = slots,
                                         .category = Category::kActivations,
                                         .dtype = dtype});
        return view_of(id, dtype, shape, {0, 0, 0, slots > 1 ? 1 : 0});
      };
}

// What is kept, and the rest within the body.
LayerActivations Activations::with_replayed(const std::string& prefix) {
  const Make near = within_body(prefix), stays = by_layer();
  LayerActivations a;
  results(
      a, [&](LayerOperator op) -> const Make& { return replays(op) ? near : stays; },
      replays_layer() ? near : stays);
  const bool again = replays_attention() || replays(LayerOperator::kAttention);
  probabilities(a, again ? near : stays);
  return a;
}

LayerActivations Activations::forward() {
  LayerActivations a = with_replayed("forward.");
  const Make make = within_body("forward.");
  a.projection = make("projection", {s_.tokens(), s_.h()}, s_.compute(), false);
  a.fc2 = make("fc2", {s_.tokens(), s_.h()}, s_.compute(), false);
  return a;
}

LayerActivations Activations::replay() {
  LayerActivations a = with_replayed("replay.");
  const Make make = within_body("replay.");
  if (replays(LayerOperator::kProjection))
    a.projection = make("projection", {s_.tokens(), s_.h()}, s_.compute(), false);
  if (replays_layer()) a.fc2 = make("fc2", {s_.tokens(), s_.h()}, s_.compute(), false);
  return a;
}

View Activations::replay_output() const {
  return within_body("replay.")("output", {s_.local_tokens(), s_.h()}, s_.compute(), false);
}

}  // namespace zplan
