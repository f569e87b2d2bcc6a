#include "planner/lower/gradients.h"

namespace zplan {
Gradients::Gradients(Stage& stage)
    : s_(stage), dtype_(stage.plan.precision.grad), homes_(stage.layout.units.size()) {
  for (UnitIndex u = 0; u < homes_.size(); ++u) {
    if (!s_.holds(u)) continue;
    const Unit& unit = s_.layout.units[u];
    const std::int32_t copies = unit.per_layer ? s_.layers : 1;
    homes_[u] = s_.out.add(
        {.name = "grad." + unit.name,
         .slot_size = size_of(dtype_) * (partitioned() ? unit.shard_elements : unit.flat_elements),
         .slots = copies,
         .tier = tier(),
         .category = Category::kGradients,
         .dtype = dtype_,
         .persistent = accumulates(),
         .unpadded = size_of(dtype_) * unit.elements * copies,
         .shards = partitioned() ? s_.dp() : 1});
  }
}

View Gradients::home(UnitIndex unit, Access access) const {
  const Unit& info = s_.layout.units[unit];
  View v = view_of(homes_[unit], dtype_, {partitioned() ? info.shard_elements : info.flat_elements},
                   info.per_layer ? s_.layer_slot() : SlotExpr{});
  v.access = access;
  return v;
}

void Gradients::begin_step() {
  if (!accumulates()) return;
  const Lane lane = on_host() ? Lane::kCpu : Lane::kCompute;
  const auto clear = [&](UnitIndex u) {
    s_.out.kernel({Phase::kBegin, s_.layout.part[u], Action::kZero}, lane, KernelId::kFillZero,
                  {home(u, Access::kWrite)});
  };
  for (UnitIndex u = 0; u < homes_.size(); ++u)
    if (s_.holds(u) && !s_.layout.units[u].per_layer) clear(u);
  s_.out.repeat(s_.layers_up(), [&] {
    for (UnitIndex u : s_.layout.layer_units) clear(u);
  });
}

BufferId Gradients::full_buffer(UnitIndex unit) {
  const Unit& info = s_.layout.units[unit];
  const std::int64_t elements =
      info.per_layer ? s_.layout.largest_layer_unit() : info.flat_elements;
  return s_.body.get({.name = "full_grad." + (info.per_layer ? "layer" : info.name),
                      .slot_size = size_of(dtype_) * elements,
                      .slots = info.per_layer ? s_.ring_slots() : 1,
                      .category = Category::kGathered,
                      .dtype = dtype_});
}

BufferId Gradients::ring(const char* name, Tier tier) {
  return s_.body.get({.name = name,
                      .slot_size = size_of(dtype_) * s_.layout.largest_shard(),
                      .slots = s_.ring_slots(),
                      .tier = tier,
                      .category = Category::kGathered,
                      .dtype = dtype_});
}

Gradients::Open Gradients::open(UnitIndex unit, Ordinal ordinal) {
  const bool in_layer = s_.layout.units[unit].per_layer;
  Open at;
  at.unit = unit;
  if (in_layer) at.ordinal = ordinal;
  if (direct()) {
    at.buffer = homes_[unit];
    at.slot = in_layer ? s_.layer_slot() : SlotExpr{};
    at.access = accumulates() ? Access::kUpdate : Access::kWrite;
  } else {
    at.buffer = full_buffer(unit);
    at.slot = at.ordinal.slot();
  }
  if (at.access == Access::kWrite) clear_padding(at);
  return at;
}

// No kernel writes what lies behind the last touched element: shard padding, unused positions.
void Gradients::clear_padding(const Open& at) {
  const std::int64_t touched = s_.layout.touched_elements(at.unit);
  const std::int64_t padding = s_.layout.units[at.unit].flat_elements - touched;
  if (padding == 0) return;
  View tail = view_of(at.buffer, dtype_, {padding}, at.slot);
  tail.offset = size_of(dtype_) * touched;
  s_.out.kernel({Phase::kBackward, s_.layout.part[at.unit], Action::kZero}, Lane::kCompute,
                KernelId::kFillZero, {write(tail)});
}

View Gradients::view(const Open& at, Param param) const {
  const ParamPlace& place = s_.layout.of(param);
  View v = view_of(at.buffer, dtype_, place.shape, at.slot);
  v.offset = size_of(dtype_) * place.offset;
  v.access = at.access;
  return v;
}

void Gradients::close(const Open& at, bool last) {
  const Part part = s_.layout.part[at.unit];
  if (!direct()) {
    move_home(at, part);
  } else if (last && !partitioned() && s_.dp() > 1) {
    reduce_in_place(at.unit, part);
  }
}

void Gradients::reduce_in_place(UnitIndex unit, Part part) {
  const bool all = s_.plan.zero_stage == 0;
  s_.out.collective({Phase::kBackward, part, Action::kReduce}, Lane::kCommReduce,
                    all ? CollectiveKind::kAllReduce : CollectiveKind::kReduceScatter,
                    GroupKind::kData, home(unit, Access::kRead), piece(unit));
}

// Full gradients -> shard -> home, each stage only where the plan has it.
void Gradients::move_home(const Open& at, Part part) {
  const Unit& info = s_.layout.units[at.unit];
  const Shape shard{info.shard_elements};
  const SlotExpr slot = at.ordinal.slot();
  const bool add = accumulates();
  View source = view_of(at.buffer, dtype_, {info.flat_elements}, at.slot);
  if (s_.dp() > 1) {
    const bool straight = !on_host() && !add;
    const View target = straight ? home(at.unit, Access::kWrite)
                                 : view_of(ring("reduced.shard", Tier::kGpu), dtype_, shard, slot);
    s_.out.collective({Phase::kBackward, part, Action::kReduce}, Lane::kCommReduce,
                      CollectiveKind::kReduceScatter, GroupKind::kData, source, target);
    source = target;
  }
  if (on_host()) {
    const View target = add ? view_of(ring("downloaded.shard", Tier::kCpu), dtype_, shard, slot)
                            : home(at.unit, Access::kWrite);
    s_.out.copy({Phase::kBackward, part, Action::kDownload}, source, target);
    source = target;
  }
  if (add)
    s_.out.kernel({Phase::kBackward, part, Action::kAccumulate},
                  on_host() ? Lane::kCpu : Lane::kCommReduce, KernelId::kAccumulate,
                  {read(source), home(at.unit, Access::kUpdate)});
}

void Gradients::sum_tied_embedding() {
  if (!s_.layout.tied || s_.plan.parallel.pp == 1 || !(s_.is_first() || s_.is_last())) return;
  const UnitIndex unit = s_.layout.unit_of(Param::kTokenEmbedding);
  View at = piece(unit);
  const View host = at;
  if (on_host()) {
    const BufferId staged = s_.body.get({.name = "tied.gradient",
                                         .slot_size = at.bytes(),
                                         .category = Category::kGathered,
                                         .dtype = dtype_});
    at = view_of(staged, dtype_, at.shape);
    s_.out.copy({Phase::kUpdate, Part::kHead, Action::kUpload}, host, at);
  }
  s_.out.collective({Phase::kUpdate, Part::kHead, Action::kReduce}, Lane::kCommReduce,
                    CollectiveKind::kAllReduce, GroupKind::kEmbedding, at, at);
  if (on_host()) s_.out.copy({Phase::kUpdate, Part::kHead, Action::kDownload}, at, host);
}

View Gradients::piece(UnitIndex unit) const {
  View v = home(unit, Access::kRead);
  if (s_.plan.zero_stage != 1) return v;
  return norm_piece(unit);
}

View Gradients::norm_piece(UnitIndex unit) const {
  View v = home(unit, Access::kRead);
  if (partitioned() || s_.dp() == 1) return v;
  const std::int64_t shard = s_.layout.units[unit].shard_elements;
  v.shape = {shard};
  v.dp_stride = size_of(dtype_) * shard;
  return v;
}

}  // namespace zplan
