#include "planner/lower/layer_run.h"

#include <algorithm>
#include <utility>

namespace zplan {

LayerRun::LayerRun(Stage& stage, std::span<const LayerKind> kinds, const Chunk& chunk,
                   std::size_t number, Parameters& parameters, Gradients& gradients,
                   Checkpoints& checkpoints, Optimizer& optimizer)
    : LayerPass(stage),
      kinds_(kinds),
      segment_(chunk.segments[number]),
      parameters_(parameters),
      gradients_(gradients),
      checkpoints_(checkpoints),
      optimizer_(optimizer) {
  const std::string run =
      chunk.prefix() + (number == 0 ? "" : "run" + std::to_string(number) + ".");
  for (const LayerKind& kind : kinds)
    activations_.emplace_back(stage, kind.values, chunk, segment_, kinds.size(),
                              run + (kinds.size() > 1 ? kind.name + "." : ""));
}

// Whether what is fetched for one is there for the other.
bool LayerRun::come_together(const MemberUse& a, const MemberUse& b) const {
  const UnitIndex unit = s_.layout.unit_of(a.use.param, a.member);
  return unit == s_.layout.unit_of(b.use.param, b.member) &&
         (a.member == b.member || !s_.layout.is_owned(unit));
}

// Of uses one after the other, where the unit used last is at hand.
std::int32_t LayerRun::fetches(const Sequence& sequence) const {
  std::int32_t count = 0;
  for (std::size_t i = 0; i < sequence.size(); ++i)
    if (i == 0 || !come_together(sequence[i - 1], sequence[i])) ++count;
  return count;
}

// In forward order; of the unit that stays for the whole layer none.
LayerRun::Sequence LayerRun::uses(std::int32_t member) const {
  Sequence all;
  for (const Use& use : kind(member).uses())
    if (!s_.layout.is_shared(s_.layout.unit_of(use.param, member))) all.push_back({member, use});
  return all;
}

// Uses of the layer ring by the bodies of an iteration, each of which goes through its tiles.
std::int32_t LayerRun::fetches_by_tile() const {
  std::int32_t count = 0;
  for (std::int32_t member = 0; member < s_.unit_layers(); ++member)
    for (const Branch& branch : kind(member).branches)
      count += static_cast<std::int32_t>(branch.body().uses().size()) * s_.tiles();
  return count;
}

std::int32_t LayerRun::fetches_of_forward() const {
  if (s_.tiles() > 1) return fetches_by_tile();
  Sequence all;
  for (std::int32_t member = 0; member < s_.unit_layers(); ++member)
    for (const MemberUse& use : uses(member)) all.push_back(use);
  return fetches(all);
}

// With those of a replay, which may end with the unit that backward begins with. The gradients of
// weights apart need no parameters.
std::int32_t LayerRun::fetches_of_backward(Backward what) const {
  if (what == Backward::kWeight) return 0;
  if (s_.tiles() > 1) return (segment_.replay.layer ? 2 : 1) * fetches_by_tile();
  Sequence all;
  const std::int32_t together = segment_.replay.layers;
  for (std::int32_t end = s_.unit_layers(); end > 0; end -= together) {
    for (std::int32_t member = end - together; member < end; ++member)
      for (const MemberUse& use : uses(member))
        if (segment_.replay.has(use.use.of)) all.push_back(use);
    for (std::int32_t member = end; member-- > end - together;) {
      const Sequence own = uses(member);
      all.insert(all.end(), own.rbegin(), own.rend());
    }
  }
  return fetches(all);
}

// Counts the fetches of a unit that stays for a whole layer: where layers are replayed together it
// is fetched again for the backward of all but the last that has it.
std::int32_t LayerRun::fetches_of_staying(Part part, std::int32_t together) const {
  std::int32_t count = 0;
  for (std::int32_t first = 0; first < s_.unit_layers(); first += together) {
    std::int32_t layers = 0;
    for (std::int32_t member = first; member < first + together; ++member)
      if (s_.layout.has(part, member)) ++layers;
    count += std::max(layers, 2 * layers - 1);
  }
  return count;
}

void LayerRun::start(const UnitLoop& loop, std::int32_t fetches, bool upwards) {
  loop_ = loop;
  s_.enter(loop);
  open_.reset();
  fetches_ = {.per_unit = fetches};
  opened_ = {.per_unit = fetches_of_forward()};
  upwards_ = upwards;
  for (std::size_t i = 0; i < kSharedParts.size(); ++i) {
    const std::int32_t together = upwards_ ? 1 : segment_.replay.layers;
    staying_[i].fetches = {.per_unit = fetches_of_staying(kSharedParts[i], together)};
    staying_[i].opened = {.per_unit = fetches_of_staying(kSharedParts[i], 1)};
  }
}

// What was fetched of one unit is not at hand in the next.
void LayerRun::each_layer(std::int32_t together, const std::function<void()>& emit) {
  const auto forget = [this] {
    resident_.reset();
    for (Staying& each : staying_) each.resident.reset();
  };
  s_.each_layer(loop_, upwards_, together, forget, [&] {
    // Gradients of a unit of several layers stay open from its first one on.
    if (s_.has_pattern && s_.plan.unit_layers() == 1 && s_.replay_member() == 0)
      s_.body.next_layer();
    emit();
  });
}

std::int64_t LayerRun::layer() const {
  return std::int64_t{loop_.first} * s_.unit_layers() + s_.out.member();
}

// Counted from the first use in the segment's layers.
Ordinal LayerRun::take(RingUses& ring) const {
  const std::int32_t use = ring.next++, n = ring.per_unit;
  if (upwards_) return {use - n * segment_.first_unit, n, ring.per_tile};
  return {use + n * (segment_.last_unit() - (loop_.together - 1)), -n, ring.per_tile};
}

// What was fetched last is of another tile.
void LayerRun::each_tile(const std::vector<Use>& uses, const std::function<void()>& emit) {
  if (s_.tiles() == 1) return emit();
  resident_.reset();
  const auto per_tile = static_cast<std::int32_t>(uses.size());
  for (RingUses* ring : {&fetches_, &opened_}) ring->per_tile = per_tile;
  const std::int32_t all = per_tile * s_.tiles();
  const std::int32_t fetched = fetches_.next, opened = opened_.next;
  s_.each_tile(s_.tiles(), emit);
  fetches_ = {fetches_.per_unit, fetched + all, 0};
  opened_ = {opened_.per_unit, opened + (opened_.next > opened ? all : 0), 0};
}

bool LayerRun::emits(OperatorSet of) const {
  return phase() == Phase::kForward || segment_.replay.has(of);
}

bool LayerRun::are_together(Param a, Param b) const {
  return parameters_.are_resident() || unit_of(a) == unit_of(b);
}

View LayerRun::parameter(Param param) {
  const UnitIndex unit = unit_of(param);
  const bool stays = s_.layout.is_shared(unit);
  std::optional<Parameters::Resident>& at = stays ? staying(unit).resident : resident_;
  if (!at || !parameters_.holds(*at, unit))
    at = parameters_.fetch(phase(), unit, s_.layout.part[unit],
                           take(stays ? staying(unit).fetches : fetches_));
  return read(parameters_.view(*at, param));
}

std::vector<View> LayerRun::scales(Param param) { return parameters_.scales(param); }

View LayerRun::handed(Part part, const char* name, const Shape& shape, bool tiled) {
  if (backward_part() == Backward::kWhole) return scratch(name, shape);
  return activations().handed({.name = std::string(name) + "." + std::string(zplan::name(part)),
                               .shape = shape,
                               .dtype = s_.compute(),
                               .tiled = tiled});
}

// What the first part of a backward gives of a gradient of weights.
View LayerRun::handed_gradient(Param param) {
  return activations().handed({.name = "d.param" + std::to_string(param.index()),
                               .shape = s_.layout.of(param, s_.unit_member()).shape,
                               .dtype = gradients_.written(),
                               .tiled = s_.layout.units[unit_of(param)].tiles > 1});
}

void LayerRun::take_gradient(Part part, Param param, bool is_bias) {
  if (!trains(param)) return;
  const View given = handed_gradient(param), target = gradient(param);
  if (target.access == Access::kWrite) {
    s_.out.copy({phase(), part, is_bias ? Action::kMoveBias : Action::kMove}, given, target);
  } else {
    const auto flat = [](View view) { return view.shape = {view.shape.elements()}, view; };
    kernel(part, is_bias ? Action::kBiasGradient : Action::kWeightGradient, KernelId::kAccumulate,
           {read(flat(given)), flat(target)});
  }
}

View LayerRun::gradient(Param param) {
  if (!trains(param)) return unused_gradient(param, gradients_.written());
  if (backward_part() == Backward::kInput) return write(handed_gradient(param));
  const UnitIndex unit = unit_of(param);
  const bool stays = s_.layout.is_shared(unit);
  std::optional<Gradients::Open>& at = stays ? staying(unit).open : open_;
  if (!at || at->unit != unit)
    at = gradients_.open(unit, take(stays ? staying(unit).opened : opened_));
  return gradients_.view(*at, param);
}

// Of the first layer that has the unit, of each layer where each has an owner.
bool LayerRun::is_first_of_unit(Param param) const {
  const std::int32_t at = s_.unit_member();
  const MemberUse own{at, {{}, param}};
  for (std::int32_t member = 0; member <= at; ++member)
    for (const MemberUse& use : uses(member))
      if (come_together(use, own)) return member == at && use.use.param == param;
  return false;
}

// Backward comes last to the parameter that forward uses first of a unit.
void LayerRun::done(Param param) {
  if (held_ == param) return;
  if (!open_ || open_->unit != unit_of(param) || !is_first_of_unit(param)) return;
  gradients_.close(*open_, last_micro_);
  open_.reset();
}

void LayerRun::end_hold() {
  const std::optional<Param> param = std::exchange(held_, std::nullopt);
  if (param) done(*param);
}

void LayerRun::close_staying() {
  for (Staying& each : staying_) {
    if (each.open) gradients_.close(*each.open, last_micro_);
    each.open.reset();
  }
}

LayerLoop LayerLoop::take(std::int32_t count) {
  const std::int32_t left = loop.count - count;
  LayerLoop first = *this;
  first.loop.count = count;
  loop.count = left;
  UnitLoop& later = upwards ? loop : first.loop;
  later.first += (upwards ? count : left) * later.together;
  is_cut = true;
  return first;
}

// Buffers of two loops that come one after the other are apart: one that both had would live from
// the begin of the first to the end of the second.
LayerLoops LayerRun::loops(const ModelStates& states, bool upwards, const EmitLayers& body) const {
  std::vector<UnitLoop> all = s_.unit_loops(segment_.first_unit, segment_.units, states);
  if (!upwards) std::ranges::reverse(all);
  LayerLoops result;
  for (const UnitLoop& loop : all) {
    const bool is_cut = !result.empty() && result.back().loop.together == loop.together;
    result.push_back({loop, upwards, is_cut, body});
  }
  return result;
}

void LayerRun::emit(const LayerLoops& loops) {
  for (const LayerLoop& each : loops) {
    if (each.is_cut) s_.body.next_body();
    s_.out.repeat(each.repeat(), [&] { each.body(each.loop); });
  }
}

LayerLoops LayerRun::forward_loops() {
  return loops({ModelState::kParameters}, true, [this](const UnitLoop& loop) {
    start(loop, fetches_of_forward(), true);
    enter(Phase::kForward);
    each_layer(1, [&] {
      checkpoints_.save();
      views_ = activations().forward();
      kind(s_.out.member()).forward(*this, checkpoints_.input(), checkpoints_.output());
      activations().save();
    });
  });
}

void LayerRun::forward() { emit(forward_loops()); }

void LayerRun::replay(const View& input, const View& output) {
  const std::int32_t member = s_.out.member();
  views_ = activations().replay();
  enter(Phase::kRecompute);
  if (segment_.replay.layer || !segment_.replay.operators.empty())
    kind(member).forward(*this, input, output);
}

// Of the layers that have one checkpoint, from the first on, which is the one that is emitted. What
// of a layer alone is replayed has no output.
void LayerRun::replay_and_backward(Backward what, const View& dx) {
  const std::int32_t first = s_.out.member(), end = first + segment_.replay.layers;
  const View checkpoint = checkpoints_.load();
  const auto input = [&] {
    return checkpoints_.has_input() ? checkpoint : checkpoints_.replayed_input();
  };
  for (std::int32_t member = first; member < end; ++member) {
    s_.out.set_member(member);
    s_.replays_ahead = member + 1 < end;
    View output;
    if (segment_.replay.layer)
      output = checkpoints_.has_output() ? activations().replay_output()
                                         : checkpoints_.replayed_output();
    replay(input(), output);
  }
  for (std::int32_t member = end; member-- > first;) {
    s_.out.set_member(member);
    if (member + 1 < end) views_ = activations().replay();
    enter(Phase::kBackward, what);
    kind(member).backward(*this, input(), dx);
    close_staying();
  }
}

void LayerRun::backward(Backward what, const View& dx, bool last_micro) {
  const LayerLoops all = backward_loops(what, dx, last_micro);
  if (!is_updated_beside(what, last_micro)) return emit(all);
  for (const LayerLoop& each : all) {
    if (each.is_cut) s_.body.next_body();
    backward_and_update(each);
  }
}

LayerLoops LayerRun::backward_loops(Backward what, const View& dx, bool last_micro) {
  ModelStates states{ModelState::kParameters, ModelState::kGradients};
  if (is_updated_beside(what, last_micro)) states.push_back(ModelState::kOptimizer);
  return loops(states, false, [this, what, dx, last_micro](const UnitLoop& loop) {
    last_micro_ = last_micro;
    start(loop, fetches_of_backward(what), false);
    each_layer(segment_.replay.layers, [&] { replay_and_backward(what, dx); });
  });
}

bool LayerRun::is_updated_beside(Backward what, bool last_micro) const {
  return last_micro && what != Backward::kInput && optimizer_.is_beside_backward();
}

// The update of what the first iteration goes through comes in the second one, and so on.
void LayerRun::backward_and_update(const LayerLoop& backward) {
  const UnitLoop& loop = backward.loop;
  const UnitLoop first{loop.first + (loop.count - 1) * loop.together, 1, loop.together};
  const UnitLoop others{loop.first, loop.count - 1, loop.together};
  const UnitLoop last{loop.first, 1, loop.together};
  s_.body.apart([&] { s_.out.repeat(first.down(), [&] { backward.body(first); }); });
  s_.out.repeat(others.down(), [&] {
    backward.body(others);
    optimizer_.update_layers(loop, 1);
  });
  s_.out.repeat(last.down(), [&] { optimizer_.update_layers(loop, 0); });
}

}  // namespace zplan
