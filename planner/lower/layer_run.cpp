#include "planner/lower/layer_run.h"

#include <algorithm>

namespace zplan {

LayerRun::LayerRun(Stage& stage, const LayerKind& kind, const Segment& segment, std::size_t number,
                   Parameters& parameters, Gradients& gradients, Checkpoints& checkpoints)
    : LayerPass(stage),
      kind_(kind),
      segment_(segment),
      uses_(kind.uses()),
      parameters_(parameters),
      gradients_(gradients),
      checkpoints_(checkpoints),
      activations_(stage, kind.values, segment, number) {}

// Of uses one after the other, where the unit used last is at hand.
std::int32_t LayerRun::fetches(const std::vector<Use>& uses) const {
  std::int32_t count = 0;
  for (std::size_t i = 0; i < uses.size(); ++i)
    if (i == 0 || unit_of(uses[i]) != unit_of(uses[i - 1])) ++count;
  return count;
}

// Uses of the layer ring by one forward, replay or backward.
std::int32_t LayerRun::fetches_per_pass() const {
  if (s_.tiles() == 1) return fetches(uses_);
  std::int32_t count = 0;
  for (const Branch& branch : kind_.branches) count += fetches(branch.body().uses()) * s_.tiles();
  return count;
}

// With those of a replay, which may end with the unit that backward begins with.
std::int32_t LayerRun::fetches_per_backward() const {
  const std::int32_t pass = fetches_per_pass();
  if (s_.tiles() > 1) return activations_.replays_layer() ? 2 * pass : pass;
  std::vector<Use> again;
  for (const Use& use : uses_)
    if (activations_.replays(use.op)) again.push_back(use);
  const bool goes_on = !again.empty() && unit_of(again.back()) == unit_of(uses_.back());
  return fetches(again) + pass - (goes_on ? 1 : 0);
}

void LayerRun::start(std::int32_t fetches_per_member, bool upwards) {
  resident_.reset();
  shared_resident_.reset();
  open_.reset();
  shared_open_.reset();
  const std::int32_t gathers = s_.layout.owners ? s_.unit_layers() : 1;
  fetches_ = {.per_layer = gathers * fetches_per_member};
  opened_ = {.per_layer = gathers * fetches_per_pass()};
  upwards_ = upwards;
}

// Counted from the first iteration of the loop over the segment's layers.
Ordinal LayerRun::take(Uses& uses) const {
  const std::int32_t use = uses.next++;
  if (upwards_) return {use - uses.per_layer * segment_.first_unit, uses.per_layer, uses.per_tile};
  return {use + uses.per_layer * segment_.last_unit(), -uses.per_layer, uses.per_tile};
}

Ordinal LayerRun::once_per_layer() const {
  Uses uses;
  return take(uses);
}

// What was fetched last is of another tile.
void LayerRun::each_tile(const std::vector<Use>& uses, const std::function<void()>& emit) {
  if (s_.tiles() == 1) return emit();
  resident_.reset();
  const std::int32_t per_tile = LayerRun::fetches(uses), all = per_tile * s_.tiles();
  for (Uses* ring : {&fetches_, &opened_}) ring->per_tile = per_tile;
  const std::int32_t fetched = fetches_.next, opened = opened_.next;
  s_.each_tile(s_.tiles(), emit);
  fetches_ = {fetches_.per_layer, fetched + all, 0};
  opened_ = {opened_.per_layer, opened + (opened_.next > opened ? all : 0), 0};
}

bool LayerRun::emits(std::optional<LayerOperator> op) const {
  return phase() == Phase::kForward || activations_.replays(op);
}

bool LayerRun::are_together(Param a, Param b) const {
  return parameters_.are_resident() || s_.layout.unit_of(a) == s_.layout.unit_of(b);
}

View LayerRun::parameter(Param param) {
  const UnitIndex unit = s_.layout.unit_of(param);
  const bool shared = s_.layout.is_shared(unit);
  std::optional<Parameters::Resident>& at = shared ? shared_resident_ : resident_;
  if (!at || !parameters_.holds(*at, unit))
    at = parameters_.fetch(phase(), unit, s_.layout.part[unit],
                           shared ? once_per_layer() : take(fetches_));
  return read(parameters_.view(*at, param));
}

View LayerRun::gradient(Param param) {
  const UnitIndex unit = s_.layout.unit_of(param);
  const bool shared = s_.layout.is_shared(unit);
  std::optional<Gradients::Open>& at = shared ? shared_open_ : open_;
  if (!at || at->unit != unit)
    at = gradients_.open(unit, shared ? once_per_layer() : take(opened_));
  return gradients_.view(*at, param);
}

// Closes the unit of an operator with its first parameter: backward comes to it last.
void LayerRun::done(Param param) {
  const UnitIndex unit = s_.layout.unit_of(param);
  if (!open_ || open_->unit != unit || s_.plan.gather == GatherUnit::kLayer) return;
  const auto first = std::find_if(uses_.begin(), uses_.end(),
                                  [&](const Use& use) { return unit_of(use) == unit; });
  if (first->param != param) return;
  gradients_.close(*open_, last_micro_);
  open_.reset();
}

// What is still open at the end of the layer.
void LayerRun::finish() {
  for (std::optional<Gradients::Open>* at : {&open_, &shared_open_}) {
    if (*at) gradients_.close(**at, last_micro_);
    at->reset();
  }
}

void LayerRun::forward() {
  start(fetches_per_pass(), true);
  enter(Phase::kForward);
  s_.each_layer(upwards_, [&] {
    checkpoints_.save();
    views_ = activations_.forward();
    kind_.forward(*this, checkpoints_.input(), checkpoints_.output());
  });
}

void LayerRun::backward(const View& dx, bool last_micro) {
  start(fetches_per_backward(), false);
  last_micro_ = last_micro;
  s_.each_layer(upwards_, [&] {
    const View input = checkpoints_.load();
    views_ = activations_.replay();
    enter(Phase::kRecompute);
    if (activations_.replays_layer()) {
      kind_.forward(*this, input, activations_.replay_output());
    } else if (activations_.replays_operators()) {
      kind_.forward(*this, input, {});
    }
    enter(Phase::kBackward);
    kind_.backward(*this, input, dx);
    if (s_.layout.owners) finish();
  });
  finish();
}

}  // namespace zplan
