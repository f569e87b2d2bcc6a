#include "planner/lower/parameters.h"

#include "planner/core/error.h"

namespace zplan {

bool Stage::holds(UnitIndex unit) const {
  if (layout.units[unit].per_layer) return true;
  if (unit == layout.unit_of(Param::kPositionEmbedding)) return is_first();
  if (unit == layout.unit_of(Param::kTokenEmbedding))
    return is_first() || (layout.tied && is_last());
  return is_last();
}

Parameters::Parameters(Stage& stage) : s_(stage), homes_(stage.layout.units.size()) {
  const DType dtype = s_.plan.precision.param;
  for (UnitIndex u = 0; u < homes_.size(); ++u) {
    if (!s_.holds(u)) continue;
    const Unit& unit = s_.layout.units[u];
    const std::int32_t copies = unit.per_layer ? s_.layers : 1;
    homes_[u].sharded = sharded();
    homes_[u].buffer = s_.out.add(
        {.name = "param." + unit.name,
         .slot_size = size_of(dtype) * (sharded() ? unit.shard_elements : unit.flat_elements),
         .slots = copies,
         .tier = s_.plan.placement.params,
         .category = Category::kParameters,
         .dtype = dtype,
         .persistent = true,
         .unpadded = size_of(dtype) * unit.elements * copies,
         .shards = sharded() ? s_.dp() : 1});
  }
}

// Layer units share one ring; each other use has a buffer of its own, since it lives elsewhere.
BufferId Parameters::gathered_buffer(UnitIndex unit, Part part) {
  const DType dtype = s_.plan.precision.param;
  const bool in_layer = s_.layout.units[unit].per_layer;
  const std::int64_t elements =
      in_layer ? s_.layout.largest_layer_unit() : s_.layout.units[unit].flat_elements;
  return s_.body.get({.name = "gathered." + std::string(in_layer ? "layer" : name(part)),
                      .slot_size = size_of(dtype) * elements,
                      .slots = in_layer ? s_.ring_slots() : 1,
                      .category = Category::kGathered,
                      .dtype = dtype});
}

// Shards on their way from the host to a gather.
BufferId Parameters::staging_buffer() {
  const DType dtype = s_.plan.precision.param;
  return s_.body.get({.name = "uploaded.shard",
                      .slot_size = size_of(dtype) * s_.layout.largest_shard(),
                      .slots = s_.ring_slots(),
                      .category = Category::kGathered,
                      .dtype = dtype});
}

Parameters::Resident Parameters::fetch(Phase phase, UnitIndex unit, Part part, Ordinal ordinal) {
  const Unit& info = s_.layout.units[unit];
  const DType dtype = s_.plan.precision.param;
  const SlotExpr home_slot = info.per_layer ? s_.layer_slot() : SlotExpr{};
  const BufferId home = homes_[unit].buffer;
  if (!must_gather() && !must_upload()) return {unit, home, home_slot};

  const SlotExpr ring_slot = info.per_layer ? ordinal.slot() : SlotExpr{};
  View shard = view_of(home, dtype, {info.shard_elements}, home_slot);
  const Resident result{unit, gathered_buffer(unit, part), ring_slot};
  View full = view_of(result.buffer, dtype, {info.flat_elements}, ring_slot);
  if (must_upload()) {
    const View target =
        must_gather() ? view_of(staging_buffer(), dtype, {info.shard_elements}, ring_slot) : full;
    s_.out.copy({phase, part, Action::kUpload}, shard, target);
    shard = target;
  }
  if (must_gather())
    s_.out.collective({phase, part, Action::kGather}, Lane::kCommGather, CollectiveKind::kAllGather,
                      GroupKind::kData, shard, full);
  return result;
}

View Parameters::view(const Resident& at, Param param) const {
  const ParamPlace& place = s_.layout.of(param);
  ZPLAN_ASSERT(place.unit == at.unit);
  const DType dtype = s_.plan.precision.param;
  View v = view_of(at.buffer, dtype, place.shape, at.slot);
  v.offset = size_of(dtype) * place.offset;
  return v;
}

View Parameters::piece(UnitIndex unit) const {
  const Unit& info = s_.layout.units[unit];
  const DType dtype = s_.plan.precision.param;
  const bool whole = s_.plan.zero_stage == 0;
  View v = view_of(homes_[unit].buffer, dtype, {whole ? info.flat_elements : info.shard_elements},
                   info.per_layer ? s_.layer_slot() : SlotExpr{});
  if (!whole && !homes_[unit].sharded) v.dp_stride = size_of(dtype) * info.shard_elements;
  return v;
}

}  // namespace zplan
