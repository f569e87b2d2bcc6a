#include "planner/lower/parameters.h"

#include "planner/core/error.h"

namespace zplan {

Parameters::Parameters(Stage& stage)
    : s_(stage),
      transfers_(stage),
      homes_(stage.layout.units.size()),
      secondary_(stage.layout.units.size()) {
  const DType dtype = s_.plan.precision.param;
  for (UnitIndex u = 0; u < homes_.size(); ++u) {
    if (!s_.holds(u)) continue;
    const Unit& unit = s_.layout.units[u];
    if (sharded()) homes_[u].shards = near(u, s_.plan.shards_of_parameters());
    homes_[u].buffer = s_.out.add({.name = "param." + unit.name,
                                   .slot_size = size_of(dtype) * home_elements(u),
                                   .slots = s_.copies(u),
                                   .tier = s_.plan.placement.params,
                                   .category = Category::kParameters,
                                   .dtype = dtype,
                                   .persistent = true,
                                   .unpadded = size_of(dtype) * unit.elements * s_.copies(u),
                                   .shards = s_.mesh.size(homes_[u].shards)});
  }
}

std::int64_t Parameters::home_elements(UnitIndex unit) const {
  return s_.layout.units[unit].flat_elements / s_.mesh.size(homes_[unit].shards);
}

std::int64_t Parameters::largest_shard() const {
  return s_.layout.largest_shard() * (s_.plan.shards() / s_.plan.shards_of_parameters());
}

View Parameters::at_home(UnitIndex unit) const {
  return view_of(homes_[unit].buffer, s_.plan.precision.param, {home_elements(unit)},
                 s_.unit_slot(unit));
}

// Layer units share one ring; every other use has a buffer of its own, since it lives elsewhere.
View Parameters::gathered(UnitIndex unit, Part part, SlotExpr slot) {
  const DType dtype = s_.compute();
  const Unit& info = s_.layout.units[unit];
  const bool in_ring = info.per_layer && !s_.layout.is_shared(unit);
  const std::int64_t elements = in_ring ? s_.layout.largest_layer_unit() : info.flat_elements;
  const BufferId id =
      s_.body.get({.name = "gathered." + std::string(in_ring ? "layer" : name(part)),
                   .slot_size = size_of(dtype) * elements,
                   .slots = info.per_layer ? s_.ring_slots() : 1,
                   .category = Category::kGathered,
                   .dtype = dtype});
  return view_of(id, dtype, {s_.layout.gathered_elements(unit)}, slot);
}

// Of shards on their way to a gather, or of whole units.
Ring Parameters::upload_ring(UnitIndex unit, Part part) const {
  const Bytes element = size_of(s_.plan.precision.param);
  const Unit& info = s_.layout.units[unit];
  if (must_gather()) return {"shard", element * largest_shard(), s_.ring_slots()};
  if (info.per_layer && !s_.layout.is_shared(unit))
    return {"unit.layer", element * s_.layout.largest_layer_unit(), s_.ring_slots()};
  return {"unit." + std::string(name(part)), element * info.flat_elements,
          info.per_layer ? s_.ring_slots() : 1};
}

// What is at home -> what kernels read: a shard on its way to the gather, or on one rank the unit.
View Parameters::cast(Phase phase, UnitIndex unit, Part part, const View& from, Ordinal ordinal) {
  View to = gathered(unit, part, ordinal.slot());
  if (must_gather()) {
    to.buffer = s_.body.get({.name = "cast.shard",
                             .slot_size = size_of(to.dtype) * largest_shard(),
                             .slots = s_.ring_slots(),
                             .category = Category::kGathered,
                             .dtype = to.dtype});
    to.shape = from.shape;
  }
  s_.out.kernel({phase, part, Action::kCast}, Lane::kCommGather, KernelId::kCast,
                {read(from), write(to)});
  return to;
}

View Parameters::at_hand(Phase phase, UnitIndex unit, Part part, Ordinal ordinal) {
  View at = at_home(unit);
  if (s_.layout.is_owned(unit)) s_.out.set_owners(s_.shard_group(unit));
  if (must_upload())
    at = transfers_.bring(phase, part, at, Tier::kGpu, upload_ring(unit, part), ordinal);
  if (casts()) at = cast(phase, unit, part, at, ordinal);
  s_.out.set_owners({});
  return at;
}

View Parameters::secondary(UnitIndex unit) const {
  return view_of(*secondary_[unit], s_.compute(),
                 {s_.layout.units[unit].flat_elements / s_.plan.secondary}, s_.unit_slot(unit));
}

void Parameters::keep(UnitIndex unit, Part part, const View& full) {
  const Unit& info = s_.layout.units[unit];
  if (!secondary_[unit])
    secondary_[unit] =
        s_.out.add({.name = "secondary." + info.name,
                    .slot_size = size_of(full.dtype) * (info.flat_elements / s_.plan.secondary),
                    .slots = s_.copies(unit),
                    .category = Category::kParameters,
                    .dtype = full.dtype,
                    .unpadded = size_of(full.dtype) * info.elements * s_.copies(unit),
                    .shards = s_.plan.secondary});
  const View target = secondary(unit);
  View own = full;
  own.shape = target.shape;
  s_.out.copy({Phase::kForward, part, Action::kHold},
              s_.own_part(own, near(unit, s_.plan.secondary)), target);
}

Parameters::Resident Parameters::fetch(Phase phase, UnitIndex unit, Part part, Ordinal ordinal) {
  if (!s_.layout.units[unit].per_layer) ordinal = {};
  const bool is_near = phase != Phase::kForward && secondary_[unit];
  View at = is_near ? secondary(unit) : at_hand(phase, unit, part, ordinal);
  if (must_gather()) {
    const View full = gathered(unit, part, ordinal.slot());
    if (!s_.plan.overlap.parameters)
      s_.out.wait({phase, part, Action::kBeforeGather}, Lane::kCompute,
                  access(full, Access::kScratch));
    const bool owned = s_.layout.is_owned(unit);
    s_.out.collective({phase, part, Action::kGather}, Lane::kCommGather,
                      owned ? CollectiveKind::kBroadcast : CollectiveKind::kAllGather,
                      {is_near ? near(unit, s_.plan.secondary) : homes_[unit].shards}, at, full);
    if (s_.plan.secondary > 0 && phase == Phase::kForward) keep(unit, part, full);
    at = full;
  }
  return {unit, at.buffer, at.slot, s_.out.member()};
}

bool Parameters::holds(const Resident& at, UnitIndex unit) const {
  return at.unit == unit && (!s_.layout.is_owned(unit) || at.layer == s_.out.member());
}

View Parameters::view(const Resident& at, Param param) const {
  const ParamPlace& place = s_.layout.of(param, s_.out.member());
  ZPLAN_ASSERT(place.unit == at.unit);
  const DType dtype = s_.compute();
  View v = view_of(at.buffer, dtype, place.shape, at.slot);
  v.offset = size_of(dtype) * place.offset;
  return v;
}

View Parameters::piece(UnitIndex unit) const {
  View own = at_home(unit);
  if (s_.plan.zero_stage == 0) return own;
  own.shape = {s_.layout.units[unit].shard_elements};
  return s_.own_part(own, writers(unit).axes);
}

Group Parameters::writers(UnitIndex unit) const {
  return {s_.layout.units[unit].shards - homes_[unit].shards};
}

}  // namespace zplan
