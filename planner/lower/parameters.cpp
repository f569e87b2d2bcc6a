#include "planner/lower/parameters.h"

#include "planner/core/error.h"
#include "planner/plan/plan_schedule.h"
#include "planner/program/schedule/double_buffered.h"

namespace zplan {

ParameterBuffers::ParameterBuffers(const Plan& plan, const KernelSet& kernels)
    : stored(plan.precision.param),
      frozen(!plan.train.has_lora()              ? stored
             : plan.train.base == BaseType::kF32 ? DType::kF32
                                                 : kernels.compute),
      read(kernels.compute),
      statistics(kernels.statistics),
      has_codes(plan.train.has_codes()),
      has_scale_codes(plan.train.has_scale_codes()),
      tiers(plan, ModelState::kParameters),
      shards(plan.zero_stage == 3 ? plan.shards_of_parameters() : 1),
      secondary(plan.secondary),
      slots(plan.prefetch + 1),
      has_older(older_versions(plan, plan.parallel.pp - 1) > 0) {}

Declared ParameterBuffers::home(const Layout& layout, UnitIndex unit) const {
  return declared({.prefix = "param.",
                   .dtype = at_home(layout, unit),
                   .shards = shards,
                   .tier = tiers.tier,
                   .every = every(layout, unit)},
                  layout, unit);
}

Declared ParameterBuffers::older(const Layout& layout, UnitIndex unit) const {
  return declared({"older.param.", stored, shards, tiers.tier}, layout, unit);
}

Declared ParameterBuffers::copy(const Layout& layout, UnitIndex unit) const {
  return declared({.prefix = "secondary.",
                   .dtype = gathered_type(layout, unit),
                   .shards = secondary,
                   .lives = layout.units[unit].per_layer ? Lives::kToBackward : Lives::kBriefly,
                   .every = every(layout, unit)},
                  layout, unit);
}

std::vector<Declared> ParameterBuffers::scales(const Layout& layout, UnitIndex unit) const {
  if (!layout.coded[unit]) return {};
  std::vector<Declared> all{declared(
      {.prefix = "scale.", .dtype = has_scale_codes ? DType::kU8 : statistics, .every = kCodeBlock},
      layout, unit)};
  if (has_scale_codes)
    all.push_back(declared(
        {.prefix = "scale.constant.", .dtype = statistics, .every = kConstantBlock}, layout, unit));
  return all;
}

bool ParameterBuffers::stays(const Layout& layout, UnitIndex unit) const {
  return !layout.units[unit].per_layer && tiers.of(layout.held[unit]) == Tier::kGpu;
}

// Every use outside the layers has a buffer of its own, since it lives elsewhere.
Declared ParameterBuffers::gathered(const Layout& layout, UnitIndex unit, Part part) const {
  return declared({.prefix = "gathered.",
                   .dtype = gathered_type(layout, unit),
                   .slots = slots,
                   .every = every(layout, unit)},
                  layout, unit, name(part));
}

Declared ParameterBuffers::uploaded(const Layout& layout, UnitIndex unit, Part part) const {
  return declared({.prefix = "unit.",
                   .dtype = at_home(layout, unit),
                   .slots = slots,
                   .lives = casts(layout, unit) ? Lives::kBriefly : Lives::kInputs,
                   .every = every(layout, unit)},
                  layout, unit, name(part));
}

void ParameterBuffers::declare(const Layout& layout, const Declare& declare) const {
  for (UnitIndex u = 0; u < layout.units.size(); ++u) {
    const Part part = layout.is_head(u) ? Part::kHead : layout.part[u];
    for (const Declared& each : tiers.homes(home(layout, u), layout.held[u])) declare(each);
    if (has_older && layout.trained[u]) declare(older(layout, u));
    for (const Declared& each : scales(layout, u)) declare(each);
    if (secondary > 0) declare(copy(layout, u));
    if (must_gather() || casts(layout, u)) {
      declare(gathered(layout, u, part));
    } else if (must_upload() && !stays(layout, u)) {
      declare(uploaded(layout, u, part));
    }
  }
}

Parameters::Parameters(Stage& stage)
    : s_(stage),
      buffers_(stage.plan, stage.kernels),
      transfers_(stage),
      homes_(stage, buffers_.tiers),
      shards_(stage.layout.units.size()),
      secondary_(stage.layout.units.size()),
      older_(stage.layout.units.size()),
      scales_(stage.layout.units.size()) {
  for (UnitIndex u = 0; u < shards_.size(); ++u) {
    if (!s_.holds(u)) continue;
    if (sharded()) shards_[u] = near(u, s_.layout.shards_of(u, buffers_.shards));
    homes_.add(u, buffers_.home(s_.layout, u));
    for (const Declared& each : buffers_.scales(s_.layout, u))
      scales_[u].push_back(s_.out.add(each.times(s_.copies(u))));
    const std::int32_t versions = older_versions(s_.plan, s_.index);
    if (versions > 0 && s_.layout.trained[u])
      older_[u] = s_.out.add(buffers_.older(s_.layout, u).times(versions * s_.copies(u)));
  }
}

std::int64_t Parameters::largest_shard(UnitIndex like) const {
  const DType dtype = buffers_.at_home(s_.layout, like);
  std::int64_t largest = 0;
  for (UnitIndex u = 0; u < s_.layout.units.size(); ++u)
    if (buffers_.at_home(s_.layout, u) == dtype)
      largest = std::max(largest, s_.layout.units[u].shard_elements);
  return largest / buffers_.every(s_.layout, like) * (s_.plan.shards() / buffers_.shards);
}

View Parameters::at_home(UnitIndex unit) const {
  return homes_.view(unit, buffers_.at_home(s_.layout, unit), {home_elements(unit)});
}

std::vector<StateHome> Parameters::scale_homes(UnitIndex unit) const {
  std::vector<StateHome> homes;
  for (std::size_t i = 0; i < scales_[unit].size(); ++i)
    homes.push_back({.buffer = scales_[unit][i], .every = i == 0 ? kCodeBlock : kConstantBlock});
  return homes;
}

View Parameters::gathered(UnitIndex unit, Part part, SlotExpr slot) {
  const BufferId id = s_.body.get(buffers_.gathered(s_.layout, unit, part).buffer);
  return view_of(id, buffers_.gathered_type(s_.layout, unit),
                 {s_.layout.gathered_elements(unit) / buffers_.every(s_.layout, unit)}, slot);
}

View Parameters::older(UnitIndex unit, std::int32_t before) const {
  View v = at_home(unit);
  v.buffer = *older_[unit];
  if (s_.updates_each) v.slot = s_.unit_slot_of_micro(unit, before);
  return v;
}

// What the last forward has read: that of the pass's own step, so many micro-batches ahead.
void Parameters::keep_older() {
  if (older_versions(s_.plan, s_.index) == 0) return;
  const std::int32_t ahead = pairs_before_update(s_.index, s_.plan.parallel.pp);
  const std::int32_t before = s_.after_update ? -ahead : s_.micro_steps - ahead;
  s_.for_each_unit([&](UnitIndex u, Ordinal) {
    s_.out.copy({Phase::kUpdate, s_.layout.part[u], Action::kHold}, at_home(u), older(u, before));
  });
}

// A unit that stays for its layer, and of which each rank has all, has a ring of its own: in that
// of the others, which come and go meanwhile, it would be written over.
std::string Parameters::shard_ring(const char* name, UnitIndex unit, Part part) const {
  const bool stays = s_.layout.is_shared(unit) && !s_.is_sharded(unit);
  const bool is_own_type = buffers_.at_home(s_.layout, unit) != buffers_.stored;
  const char* own = s_.layout.coded[unit] ? "codes." : is_own_type ? "frozen." : "";
  const std::string ring = std::string(own) + name;
  return stays ? ring + "." + std::string(zplan::name(part)) : ring;
}

// Of shards on their way to a gather, or of whole units.
Ring Parameters::upload_ring(UnitIndex unit, Part part) const {
  if (buffers_.must_gather())
    return {shard_ring("shard", unit, part),
            size_of(buffers_.at_home(s_.layout, unit)) * largest_shard(unit), buffers_.slots};
  const Declared whole = buffers_.uploaded(s_.layout, unit, part);
  return ring_of(whole.buffer.name, whole);
}

// What is at home -> what kernels read: a shard on its way to the gather, or on one rank the unit.
View Parameters::cast(Phase phase, UnitIndex unit, Part part, const View& from, Ordinal ordinal) {
  View to = gathered(unit, part, ordinal.slot());
  if (buffers_.must_gather()) {
    to.buffer = s_.body.get({.name = shard_ring("cast.shard", unit, part),
                             .slot_size = size_of(to.dtype) * largest_shard(unit),
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
  View at = reads_older(phase, unit) ? older(unit, 0) : at_home(unit);
  if (s_.layout.is_owned(unit)) s_.out.set_owners(s_.shard_group(unit));
  if (buffers_.must_upload())
    at = transfers_.bring(phase, part, at, Tier::kGpu, upload_ring(unit, part), ordinal);
  if (buffers_.casts(s_.layout, unit)) at = cast(phase, unit, part, at, ordinal);
  s_.out.set_owners({});
  return at;
}

View Parameters::secondary(UnitIndex unit) const {
  return view_of(
      *secondary_[unit], buffers_.gathered_type(s_.layout, unit),
      {s_.layout.units[unit].flat_elements / buffers_.secondary / buffers_.every(s_.layout, unit)},
      s_.unit_slot(unit));
}

void Parameters::keep(UnitIndex unit, Part part, const View& full) {
  if (!secondary_[unit])
    secondary_[unit] = s_.out.add(buffers_.copy(s_.layout, unit).times(s_.copies(unit)));
  const View target = secondary(unit);
  View own = full;
  own.shape = target.shape;
  s_.out.copy({Phase::kForward, part, Action::kHold},
              s_.own_part(own, near(unit, buffers_.secondary)), target);
}

Parameters::Resident Parameters::fetch(Phase phase, UnitIndex unit, Part part, Ordinal ordinal) {
  if (!s_.layout.has_ring(unit)) ordinal = {};
  const bool is_near = phase != Phase::kForward && secondary_[unit];
  View at = is_near ? secondary(unit) : at_hand(phase, unit, part, ordinal);
  if (buffers_.must_gather() && s_.is_sharded(unit)) {
    const View full = gathered(unit, part, ordinal.slot());
    if (!s_.plan.overlap.parameters)
      s_.out.wait({phase, part, Action::kBeforeGather}, Lane::kCompute,
                  access(full, Access::kScratch));
    const bool owned = s_.layout.is_owned(unit);
    s_.out.collective({phase, part, Action::kGather}, Lane::kCommGather,
                      owned ? CollectiveKind::kBroadcast : CollectiveKind::kAllGather,
                      {is_near ? near(unit, buffers_.secondary) : shards_[unit]}, at, full);
    if (buffers_.secondary > 0 && phase == Phase::kForward) keep(unit, part, full);
    at = full;
  }
  return {unit, at.buffer, at.slot, s_.out.member()};
}

bool Parameters::holds(const Resident& at, UnitIndex unit) const {
  return at.unit == unit && (!s_.layout.is_owned(unit) || at.layer == s_.out.member());
}

View Parameters::view(const Resident& at, Param param) const {
  const ParamPlace& place = s_.layout.of(param, s_.unit_member());
  ZPLAN_ASSERT(place.unit == at.unit);
  if (s_.layout.coded[at.unit]) {
    View codes = view_of(at.buffer, DType::kU8,
                         {round_up(place.shape.elements(), kCodeBlock) / kCodesPerByte}, at.slot);
    codes.offset = size_of(DType::kU8) * (place.offset / kCodesPerByte);
    return codes;
  }
  const DType dtype = s_.compute();
  View v = view_of(at.buffer, dtype, place.shape, at.slot);
  v.offset = size_of(dtype) * place.offset;
  return v;
}

std::vector<View> Parameters::scales(Param param) const {
  const ParamPlace& place = s_.layout.of(param, s_.unit_member());
  std::vector<View> views;
  for (const StateHome& home : scale_homes(place.unit)) {
    const DType dtype = s_.out.buffer(home.buffer).dtype;
    View v = view_of(home.buffer, dtype, {ceil_div(place.shape.elements(), home.every)},
                     s_.unit_slot(place.unit));
    v.offset = size_of(dtype) * (place.offset / home.every);
    views.push_back(v);
  }
  return views;
}

View Parameters::piece(UnitIndex unit) const {
  View own = at_home(unit);
  if (s_.plan.zero_stage == 0) return own;
  own.shape = {s_.layout.units[unit].shard_elements};
  return s_.own_part(own, writers(unit).axes);
}

Group Parameters::writers(UnitIndex unit) const {
  return {s_.layout.units[unit].shards - shards_[unit]};
}

}  // namespace zplan
