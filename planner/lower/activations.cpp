#include "planner/lower/activations.h"

namespace zplan {
namespace {

constexpr Tier kAway[] = {Tier::kCpu, Tier::kNvme};

bool stays(const ValueSpec& spec, const Replay& replay) {
  if (spec.life >= Life::kForward || replay.has(spec.of)) return false;
  return spec.life == Life::kBackward || !replay.attention;
}

// One that is read first is held on to where tiles that follow have theirs beside it.
Lives lives_of(const ValueSpec& spec, const Replay& replay, std::int32_t slots) {
  const bool ends = spec.in_backward == Read::kFirst && slots == 1;
  if (spec.in_backward == Read::kNever || spec.life == Life::kForward) return Lives::kBriefly;
  if (stays(spec, replay)) return ends ? Lives::kIntoBackward : Lives::kToBackward;
  const bool later = spec.life == Life::kSelective && replay.attention;
  return ends || later ? Lives::kBriefly : Lives::kInputs;
}

Declared declared(const ValueSpec& spec, const Replay& replay, std::int32_t tiles) {
  const std::int32_t slots = spec.tiled ? tiles : 1;
  const Per per = stays(spec, replay) ? Per::kLayerInFlight : Per::kStage;
  return declared(spec, slots, per, lives_of(spec, replay, slots));
}

// What the other layers have that are replayed with one: all of it is there while backward is in
// the last of them.
std::optional<Declared> declared_of_others(const ValueSpec& spec, const Replay& replay,
                                           std::int32_t tiles) {
  const bool is_read = spec.life < Life::kForward && spec.in_backward != Read::kNever;
  if (replay.layers == 1 || !is_read) return std::nullopt;
  Declared others = declared(spec, replay, tiles);
  others.buffer.name = "others." + spec.name;
  others.buffer.slots *= replay.layers - 1;
  others.lives = Lives::kInputs;
  return others;
}

}  // namespace

std::optional<Tier> away_tier(const Values& values, const ValueSpec& spec, const Replay& replay) {
  const Tier tier = replay.tier_of(spec.of);
  if (tier == Tier::kGpu || !stays(spec, replay) || spec.dtype != values.dtype())
    return std::nullopt;
  return tier;
}

void declare(const Values& values, const Replay& replay, std::int32_t tiles,
             const Declare& declare) {
  for (const ValueSpec& spec : values.specs())
    if (!away_tier(values, spec, replay)) {
      declare(declared(spec, replay, tiles));
      if (const auto others = declared_of_others(spec, replay, tiles)) declare(*others);
    }
  for (const Tier tier : kAway) AwayBuffers(values, replay, tier).declare(replay, declare);
}

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
    if (stays(spec, segment_.replay) && !away_tier(values, spec, segment_.replay))
      kept_[value.index()] = add(spec, kept_layers());
  });
  for (const Tier tier : kAway) {
    AwayBuffers buffers(values, segment_.replay, tier);
    if (!buffers.values.empty())
      away_.emplace_back(stage, std::move(buffers), layers() * chunk_.in_flight, prefix_);
  }
}

BufferId Activations::add(const ValueSpec& spec, std::int32_t layers) const {
  return s_.out.add(declared(spec, segment_.replay, s_.tiles()).times(layers, prefix_));
}

void Activations::by_life(const std::function<void(Value, const ValueSpec&)>& visit) const {
  for (const Life life : {Life::kBackward, Life::kSelective, Life::kForward})
    for (std::size_t i = 0; i < values_.specs().size(); ++i)
      if (values_.specs()[i].life == life) visit(Value(i), values_.specs()[i]);
}

View Activations::slot_of(BufferId buffer, const ValueSpec& spec) const {
  const std::int32_t n = tiles(spec), per_unit = layers_together() * n;
  const std::int32_t member = s_.out.member() / kinds_;
  SlotExpr slot{member * n - segment_.first_unit * per_unit, segment_.units * per_unit, per_unit,
                n > 1 ? 1 : 0};
  if (shares_places()) slot.per_micro = 0;
  if (shares_places() && s_.reversed) {
    slot.base = member * n + (segment_.first_unit + segment_.units) * per_unit;
    slot.per_layer = -per_unit;
  }
  return view_of(buffer, spec.dtype, spec.shape, slot);
}

View Activations::handed(const ValueSpec& spec) {
  const auto [at, is_new] = handed_.try_emplace(spec.name);
  if (is_new) at->second = add(spec, layers() * chunk_.between_parts);
  return slot_of(at->second, spec);
}

View Activations::within_body(const std::string& prefix, const ValueSpec& spec) const {
  const Declared value = declared(spec, segment_.replay, s_.tiles());
  return view_of(s_.body.get(value.times(1, s_.own_name(prefix))), spec.dtype, spec.shape,
                 {0, 0, 0, value.buffer.slots > 1 ? 1 : 0});
}

ValueViews Activations::views(const std::string& prefix, bool forward) const {
  ValueViews views(values_.specs().size());
  by_life([&](Value value, const ValueSpec& spec) {
    if (away_tier(values_, spec, segment_.replay)) return;
    if (stays(spec, segment_.replay)) {
      views[value.index()] = slot_of(kept_[value.index()], spec);
    } else if (spec.life != Life::kForward || forward || segment_.replay.has(spec.of)) {
      views[value.index()] = within_body(prefix, spec);
    }
  });
  return views;
}

Ordinal Activations::up() const {
  const std::int32_t first = segment_.first_unit * layers_together();
  return {s_.out.member() / kinds_ - first, layers_together()};
}

Ordinal Activations::down() const {
  const Ordinal from_first = up();
  return {layers() - 1 - from_first.base, -from_first.per_layer};
}

SlotExpr Activations::home_slot() const {
  SlotExpr slot = up().slot();
  slot.per_micro = layers();
  return slot;
}

ValueViews Activations::forward() {
  ValueViews result = views("forward.", true);
  for (KeptAway& away : away_) away.show_forward(values_, up(), result);
  return result;
}

void Activations::save() {
  for (KeptAway& away : away_) away.send(home_slot(), up());
}

ValueViews Activations::replay() {
  ValueViews result = views("replay.", false);
  for (KeptAway& away : away_) away.bring(values_, home_slot(), down(), result);
  return result;
}

View Activations::replay_output() const {
  return within_body(
      "replay.", {.name = "output", .shape = {s_.local_tokens(), s_.h()}, .dtype = s_.compute()});
}

}  // namespace zplan
