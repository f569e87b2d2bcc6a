#include "planner/lower/state_homes.h"

namespace zplan {

StateTiers::StateTiers(const Plan& plan, ModelState of)
    : state(of), tier(plan.placement.of(of)), near(plan.placement.near(of)) {}

Tier StateTiers::of(Held held) const { return near && is_near_outside_layers(held) ? *near : tier; }

std::vector<Declared> StateTiers::homes(Declared all, Held held) const {
  if (!near) return {std::move(all)};
  Declared nearer = all;
  nearer.buffer.name = "near." + all.buffer.name;
  nearer.buffer.tier = *near;
  if (held != Held::kByLayer) return {is_near_outside_layers(held) ? nearer : all};
  nearer.per = near_unit(state);
  all.per = far_unit(state);
  return {std::move(nearer), std::move(all)};
}

void StateHomes::add(UnitIndex unit, const Declared& all, std::int32_t versions) {
  const std::int32_t copies = s_.copies(unit), near = s_.near_copies(tiers_.state, unit);
  for (const Declared& home : tiers_.homes(all, s_.layout.held[unit])) {
    const bool is_near = tiers_.near && home.buffer.tier == *tiers_.near;
    std::int32_t own = copies;
    if (home.per == near_unit(tiers_.state)) own = near;
    if (home.per == far_unit(tiers_.state)) own = copies - near;
    Buffers& buffers = homes_[unit];
    if (own > 0) (is_near ? buffers.near : buffers.far) = s_.out.add(home.times(versions * own));
  }
}

// Before anything is emitted it is of any home.
View StateHomes::view(UnitIndex unit, DType dtype, const Shape& shape) const {
  const Buffers& own = homes_[unit];
  const bool is_near = own.near && (!own.far || s_.is_near(tiers_.state, unit));
  SlotExpr slot = s_.unit_slot(unit);
  if (!is_near && own.near)
    slot.base -= s_.near_copies(tiers_.state, unit) * s_.layout.units[unit].tiles;
  return view_of(is_near ? *own.near : *own.far, dtype, shape, slot);
}

Tier StateHomes::tier(UnitIndex unit) const {
  return tiers_.near && s_.is_near(tiers_.state, unit) ? *tiers_.near : tiers_.tier;
}

StateHome StateHomes::home(UnitIndex unit, StateHome like) const {
  const Buffers& own = homes_[unit];
  like.buffer = own.near ? *own.near : *own.far;
  if (own.near) like.rest = own.far;
  return like;
}

}  // namespace zplan
