#include "planner/lower/kept_away.h"

#include "planner/lower/activations.h"

namespace zplan {
namespace {

// Compute works on one while another is on its way. [derived]
constexpr std::int32_t kKeptSlots = 2;

constexpr const char* name_of(Tier tier) {
  return tier == Tier::kCpu ? "kept_on_cpu" : "kept_on_nvme";
}

}  // namespace

AwayBuffers::AwayBuffers(const Values& all, const Replay& replay, Tier home)
    : tier(home), dtype(all.dtype()) {
  for (std::size_t i = 0; i < all.specs().size(); ++i) {
    const ValueSpec& spec = all.specs()[i];
    if (away_tier(all, spec, replay) != tier) continue;
    values.emplace_back(Value(i), size_of(dtype) * elements);
    elements += spec.shape.elements();
  }
}

Declared AwayBuffers::home() const {
  Declared result = declared({.name = name_of(tier), .shape = {elements}, .dtype = dtype}, 1,
                             Per::kLayerInFlight, Lives::kToBackward);
  result.buffer.tier = tier;
  return result;
}

Declared AwayBuffers::ring() const {
  return declared({.name = name_of(tier), .shape = {elements}, .dtype = dtype}, kKeptSlots,
                  Per::kStage, Lives::kBriefly);
}

void AwayBuffers::declare(const Replay& replay, const Declare& declare) const {
  if (values.empty()) return;
  declare(ring());
  if (!replay.is_mixed) declare(home());
}

KeptAway::KeptAway(Stage& stage, AwayBuffers buffers, std::int32_t slots, const std::string& prefix)
    : s_(stage),
      buffers_(std::move(buffers)),
      prefix_(prefix),
      home_(s_.out.add(buffers_.home().times(slots, prefix))),
      transfers_(stage) {}

View KeptAway::together(BufferId buffer, const SlotExpr& slot) const {
  return view_of(buffer, buffers_.dtype, {buffers_.elements}, slot);
}

View KeptAway::outgoing(Ordinal layer) {
  Declared ring = buffers_.ring();
  ring.buffer.name = "saved." + ring.buffer.name;
  return together(s_.body.get(ring.times(1, prefix_)), layer.slot());
}

void KeptAway::show(const Values& values, const View& together, ValueViews& views) const {
  for (const auto& [value, begin] : buffers_.values) {
    View& view = views[value.index()];
    view = together;
    view.shape = values.specs()[value.index()].shape;
    view.offset += begin;
  }
}

void KeptAway::show_forward(const Values& values, Ordinal layer, ValueViews& views) {
  show(values, outgoing(layer), views);
}

void KeptAway::send(const SlotExpr& home, Ordinal layer) {
  transfers_.send(Phase::kForward, buffers_.part(), outgoing(layer), together(home_, home),
                  ring_of(prefix_ + "saved." + name_of(buffers_.tier), buffers_.ring()), layer);
}

void KeptAway::bring(const Values& values, const SlotExpr& home, Ordinal layer, ValueViews& views) {
  const Ring ring = ring_of(prefix_ + "loaded." + name_of(buffers_.tier), buffers_.ring());
  show(values,
       transfers_.bring(Phase::kRecompute, buffers_.part(), together(home_, home), Tier::kGpu, ring,
                        layer),
       views);
}

}  // namespace zplan
