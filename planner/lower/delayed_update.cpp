#include "planner/lower/delayed_update.h"

namespace zplan {

DelayedUpdate::DelayedUpdate(Stage& stage, const Parameters& parameters, const Gradients& gradients)
    : s_(stage),
      parameters_(parameters),
      gradients_(gradients),
      transfers_(stage),
      held_(stage.layout.units.size()),
      next_(stage.layout.units.size()) {
  for (UnitIndex u = 0; u < held_.size(); ++u) {
    if (!s_.holds(u) || !s_.layout.trained[u]) continue;
    const auto add = [&](const char* prefix, const View& like, Category category, bool persistent) {
      return s_.out.add({.name = prefix + s_.layout.units[u].name,
                         .slot_size = like.bytes(),
                         .slots = s_.copies(u) * s_.layout.units[u].tiles,
                         .tier = Tier::kCpu,
                         .category = category,
                         .dtype = like.dtype,
                         .persistent = persistent});
    };
    held_[u] = add("held.grad.", gradients_.piece(u), Category::kGradients, true);
    next_[u] = add("next.param.", parameters_.piece(u), Category::kParameters, false);
  }
}

View DelayedUpdate::slot(const std::vector<BufferId>& buffers, UnitIndex unit,
                         const View& like) const {
  return view_of(buffers[unit], like.dtype, like.shape, s_.unit_slot(unit));
}

View DelayedUpdate::gradient(UnitIndex unit) const {
  return slot(held_, unit, gradients_.piece(unit));
}

View DelayedUpdate::target(UnitIndex unit) const {
  return slot(next_, unit, parameters_.piece(unit));
}

void DelayedUpdate::hold(UnitIndex unit) {
  s_.out.copy({Phase::kUpdate, s_.layout.part[unit], Action::kHold}, gradients_.piece(unit),
              gradient(unit));
}

void DelayedUpdate::publish(UnitIndex unit, Ordinal ordinal) {
  const View home = parameters_.piece(unit);
  const Part part = s_.layout.part[unit];
  if (transfers_.tier_of(home) == Tier::kCpu) {
    s_.out.copy({Phase::kUpdate, part, Action::kMove}, target(unit), home);
  } else {
    transfers_.send(Phase::kUpdate, part, target(unit), home, {}, ordinal);
  }
}

}  // namespace zplan
