#include "planner/lower/activations.h"

namespace zplan {
namespace {

// Compute fills one slot while the copy of the other is on its way. [derived]
constexpr std::int32_t kRingSlots = 2;

}  // namespace

Activations::Activations(Stage& stage) : s_(stage) {
  const Shape x{s_.tokens(), s_.h()};
  const Bytes bytes = size_of(s_.compute()) * x.elements();
  boundary_ =
      s_.out.add({.name = "layer_input",
                  .slot_size = bytes,
                  .slots = offloads() ? kRingSlots : (s_.layers + 1) * s_.in_flight,
                  .category = recomputes() ? Category::kCheckpoints : Category::kActivations,
                  .dtype = s_.compute()});
  if (offloads()) {
    host_ = s_.out.add({.name = "checkpoint.host",
                        .slot_size = bytes,
                        .slots = s_.layers * s_.in_flight,
                        .tier = Tier::kCpu,
                        .category = Category::kCheckpoints,
                        .dtype = s_.compute()});
  }
  if (!recomputes()) keep_all();
}

// What backward reads of one layer.
LayerActivations Activations::results(const std::string& prefix) const {
  const std::int64_t t = s_.tokens();
  const DType x = s_.compute();
  const DType stat = s_.kernels.statistics;
  const auto add = [&](const char* name, Shape shape, DType dtype) {
    return this->add(prefix + name, shape, dtype);
  };
  LayerActivations a;
  a.norm1 = add("norm1", {t, s_.h()}, x);
  a.mean1 = add("mean1", {t}, stat);
  a.rstd1 = add("rstd1", {t}, stat);
  a.qkv = add("qkv", {t, 3 * s_.h()}, x);
  a.attention = add("attention", {t, s_.h()}, x);
  a.lse = add("lse", {s_.b(), s_.model.heads, s_.s()}, stat);
  a.middle = add("middle", {t, s_.h()}, x);
  a.norm2 = add("norm2", {t, s_.h()}, x);
  a.mean2 = add("mean2", {t}, stat);
  a.rstd2 = add("rstd2", {t}, stat);
  a.fc1 = add("fc1", {t, s_.ffn()}, x);
  a.gelu = add("gelu", {t, s_.ffn()}, x);
  return a;
}

View Activations::add(const std::string& name, Shape shape, DType dtype) const {
  const BufferId id = s_.body.get({.name = name,
                                   .slot_size = size_of(dtype) * shape.elements(),
                                   .category = Category::kActivations,
                                   .dtype = dtype});
  return view_of(id, dtype, shape);
}

// Gives each a slot per layer and micro-batch in flight.
void Activations::keep_all() {
  LayerActivations a = results("");
  for (View* v : {&a.norm1, &a.mean1, &a.rstd1, &a.qkv, &a.attention, &a.lse, &a.middle, &a.norm2,
                  &a.mean2, &a.rstd2, &a.fc1, &a.gelu}) {
    s_.out.buffer(v->buffer).slots = s_.layers * s_.in_flight;
    v->slot = {-s_.first_layer, s_.layers, 1};
  }
  kept_ = a;
}

LayerActivations Activations::within_body(const std::string& prefix) const {
  LayerActivations a = kept_ ? *kept_ : results(prefix);
  a.projection = add(prefix + "projection", {s_.tokens(), s_.h()}, s_.compute());
  a.fc2 = add(prefix + "fc2", {s_.tokens(), s_.h()}, s_.compute());
  return a;
}

LayerActivations Activations::forward() const { return within_body("forward."); }
LayerActivations Activations::replay() const { return kept_ ? *kept_ : within_body("replay."); }

View Activations::replay_output() const {
  return add("replay.output", {s_.tokens(), s_.h()}, s_.compute());
}

View Activations::boundary(std::int32_t shift) const {
  const std::int32_t per_micro = offloads() ? 0 : s_.layers + 1;
  return view_of(boundary_, s_.compute(), {s_.tokens(), s_.h()},
                 {shift - s_.first_layer, per_micro, 1});
}

View Activations::input_of(std::int32_t layer) const {
  View v = boundary(layer);
  v.slot.per_layer = 0;
  return v;
}

View Activations::host_checkpoint() const {
  return view_of(*host_, s_.compute(), {s_.tokens(), s_.h()}, {-s_.first_layer, s_.layers, 1});
}

void Activations::save_checkpoint() {
  if (offloads())
    s_.out.copy({Phase::kForward, Part::kBoundary, Action::kDownload}, input(), host_checkpoint());
}

View Activations::load_checkpoint() {
  if (!offloads()) return input();
  const Shape shape{s_.tokens(), s_.h()};
  const BufferId ring = s_.body.get({.name = "checkpoint.uploaded",
                                     .slot_size = size_of(s_.compute()) * shape.elements(),
                                     .slots = kRingSlots,
                                     .category = Category::kCheckpoints,
                                     .dtype = s_.compute()});
  const View target = view_of(ring, s_.compute(), shape, {s_.last_layer(), 0, -1});
  s_.out.copy({Phase::kRecompute, Part::kBoundary, Action::kUpload}, host_checkpoint(), target);
  return target;
}

}  // namespace zplan
