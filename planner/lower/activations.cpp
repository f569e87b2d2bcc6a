#include "planner/lower/activations.h"

namespace zplan {

Activations::Activations(Stage& stage, const Values& values, const Chunk& chunk,
                         const Segment& segment, std::size_t kinds, const std::string& prefix)
    : s_(stage),
      values_(values),
      chunk_(chunk),
      segment_(segment),
      kinds_(static_cast<std::int32_t>(kinds)),
      prefix_(prefix),
      kept_(values.specs().size()) {
  by_life([&](Value value, const ValueSpec& spec) {
    if (stays(spec)) kept_[value.index()] = add(spec, chunk_.in_flight);
  });
}

BufferId Activations::add(const ValueSpec& spec, std::int32_t in_flight) const {
  const std::int32_t layers = segment_.units * layers_together();
  return s_.out.add({.name = prefix_ + spec.name,
                     .slot_size = size_of(spec.dtype) * spec.shape.elements(),
                     .slots = layers * tiles(spec) * in_flight,
                     .category = Category::kActivations,
                     .dtype = spec.dtype});
}

bool Activations::stays(const ValueSpec& spec) const {
  if (spec.life == Life::kForward || segment_.replays(spec.of)) return false;
  return spec.life == Life::kBackward || !segment_.replays_attention();
}

void Activations::by_life(const std::function<void(Value, const ValueSpec&)>& visit) const {
  for (const Life life : {Life::kBackward, Life::kSelective, Life::kForward})
    for (std::size_t i = 0; i < values_.specs().size(); ++i)
      if (values_.specs()[i].life == life) visit(Value(i), values_.specs()[i]);
}

View Activations::slot_of(BufferId buffer, const ValueSpec& spec) const {
  const std::int32_t n = tiles(spec), per_unit = layers_together() * n;
  const std::int32_t member = s_.out.member() / kinds_;
  const SlotExpr slot{member * n - segment_.first_unit * per_unit, segment_.units * per_unit,
                      per_unit, n > 1 ? 1 : 0};
  return view_of(buffer, spec.dtype, spec.shape, slot);
}

View Activations::handed(const ValueSpec& spec) {
  const auto [at, is_new] = handed_.try_emplace(spec.name);
  if (is_new) at->second = add(spec, chunk_.between_parts);
  return slot_of(at->second, spec);
}

View Activations::within_body(const std::string& prefix, const ValueSpec& spec) const {
  const std::int32_t slots = tiles(spec);
  const BufferId id = s_.body.get({.name = prefix + spec.name,
                                   .slot_size = size_of(spec.dtype) * spec.shape.elements(),
                                   .slots = slots,
                                   .category = Category::kActivations,
                                   .dtype = spec.dtype});
  return view_of(id, spec.dtype, spec.shape, {0, 0, 0, slots > 1 ? 1 : 0});
}

ValueViews Activations::views(const std::string& prefix, bool forward) const {
  ValueViews views(values_.specs().size());
  by_life([&](Value value, const ValueSpec& spec) {
    if (stays(spec)) {
      views[value.index()] = slot_of(kept_[value.index()], spec);
    } else if (spec.life != Life::kForward || forward || segment_.replays(spec.of)) {
      views[value.index()] = within_body(prefix, spec);
    }
  });
  return views;
}

View Activations::replay_output() const {
  return within_body(
      "replay.", {.name = "output", .shape = {s_.local_tokens(), s_.h()}, .dtype = s_.compute()});
}

}  // namespace zplan
