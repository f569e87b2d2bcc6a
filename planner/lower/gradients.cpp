#include "planner/lower/gradients.h"

#include "planner/plan/plan_schedule.h"

namespace zplan {

GradientBuffers::GradientBuffers(const Plan& plan, const KernelSet& kernels, bool apart)
    : dtype(plan.precision.grad),
      written(plan.precision.grad_cast == GradientCast::kNone ? dtype : kernels.compute),
      tiers(plan, ModelState::kGradients),
      shards(plan.zero_stage >= 2 ? plan.shards() : 1),
      slots(plan.prefetch + 1),
      partitioned(plan.zero_stage >= 2),
      one_replica(plan.replicas() == 1),
      adds_micro_batches(plan.micro_steps() > plan.updates()),
      ends_apart(apart),
      updated_in_turn(plan.overlap.optimizer) {}

Declared GradientBuffers::home(const Layout& layout, UnitIndex unit) const {
  const Lives filled = updated_in_turn ? Lives::kBriefly : Lives::kToUpdate;
  const Lives lives = accumulate(layout, unit) ? Lives::kStep : filled;
  return declared({"grad.", dtype, shards, tiers.tier, Category::kGradients, lives}, layout, unit);
}

Declared GradientBuffers::full(const Layout& layout, UnitIndex unit) const {
  return declared({"full_grad.", written, slots, Lives::kWeights}, layout, unit,
                  layout.units[unit].name);
}

void GradientBuffers::declare(const Layout& layout, const Declare& declare) const {
  for (UnitIndex u = 0; u < layout.units.size(); ++u) {
    if (!layout.trained[u]) continue;
    bool passes = false;
    for (const Declared& each : tiers.homes(home(layout, u), layout.held[u])) {
      declare(each);
      passes = passes || !direct(layout, u, each.buffer.tier);
    }
    if (passes) declare(full(layout, u));
  }
}

Gradients::Gradients(Stage& stage)
    : s_(stage),
      buffers_(stage.plan, stage.kernels, stage.has_ends_apart()),
      transfers_(stage),
      homes_(stage, buffers_.tiers) {
  for (UnitIndex u = 0; u < s_.layout.units.size(); ++u)
    if (s_.holds(u) && s_.layout.trained[u])
      homes_.add(u, buffers_.home(s_.layout, u), held_gradients(s_.plan));
}

View Gradients::home(UnitIndex unit, Access access) const {
  const Unit& info = s_.layout.units[unit];
  View v = homes_.view(unit, dtype(), {partitioned() ? info.shard_elements : info.flat_elements});
  if (held_gradients(s_.plan) > 1) v.slot = s_.unit_slot_of_micro(unit, s_.gradients_behind);
  v.access = access;
  return v;
}

// Of shards on their way between the reduction and their home.
Ring Gradients::ring(const char* name) const {
  return {name, size_of(dtype()) * s_.layout.largest_shard(), s_.ring_slots()};
}

void Gradients::begin_step() {
  const auto clear = [&](UnitIndex u, Ordinal ordinal) {
    const View target = home(u, Access::kWrite);
    const Tier near = off_gpu(u) ? Tier::kCpu : Tier::kGpu;
    const View zero = transfers_.outbox(target, near, ring("zero"), ordinal);
    s_.out.kernel({Phase::kBegin, s_.layout.part[u], Action::kZero},
                  off_gpu(u) ? Lane::kCpu : Lane::kCompute, KernelId::kFillZero, {write(zero)});
    transfers_.send(Phase::kBegin, s_.layout.part[u], zero, target, ring("zero"), ordinal);
  };
  s_.for_each_unit_outside_layers([&](UnitIndex u, Ordinal ordinal) {
    if (accumulates(u)) clear(u, ordinal);
  });
  if (buffers_.adds_micro_batches) s_.for_each_layer_unit(clear, {ModelState::kGradients});
}

Gradients::Open Gradients::open(UnitIndex unit, Ordinal ordinal, std::optional<Part> part) {
  Open at;
  at.unit = unit;
  at.part = part.value_or(s_.layout.part[unit]);
  if (s_.layout.has_ring(unit)) at.ordinal = ordinal;
  if (direct(unit)) {
    const View own = home(unit, Access::kWrite);
    at.buffer = own.buffer;
    at.slot = own.slot;
    at.access = accumulates(unit) ? Access::kUpdate : Access::kWrite;
  } else {
    at.buffer = s_.body.get(buffers_.full(s_.layout, unit).buffer);
    at.slot = at.ordinal.slot();
  }
  if (at.access == Access::kWrite) clear_padding(at);
  return at;
}

// No kernel writes what lies behind the last touched element: shard padding, unused positions.
void Gradients::clear_padding(const Open& at) {
  const std::int64_t touched = s_.layout.touched_elements(at.unit);
  const std::int64_t padding = s_.layout.gathered_elements(at.unit) - touched;
  if (padding == 0) return;
  View tail = view_of(at.buffer, written(), {padding}, at.slot);
  tail.offset = size_of(written()) * touched;
  s_.out.kernel({Phase::kBackward, at.part, Action::kZero}, Lane::kCompute, KernelId::kFillZero,
                {write(tail)});
}

View Gradients::view(const Open& at, Param param) const {
  const ParamPlace& place = s_.layout.of(param, s_.unit_member());
  View v = view_of(at.buffer, written(), place.shape, at.slot);
  v.offset = size_of(written()) * place.offset;
  v.access = at.access;
  return v;
}

void Gradients::close(const Open& at, bool last) {
  const Part part = at.part;
  if (last || !direct(at.unit) || !accumulates(at.unit)) sum_over_tensor_ranks(at);
  if (!direct(at.unit)) {
    move_home(at, part);
  } else if (last && !partitioned() && s_.replicas() > 1 && overlaps()) {
    reduce_in_place(at.unit, part);
  }
}

// Positions are left out, and what is around the layers of a vision tower: their gradient is taken
// of all tokens on every rank.
std::int64_t Gradients::summed_elements(UnitIndex unit) const {
  if (!s_.sequence_parallel()) return s_.layout.summed_elements[unit];
  const Part part = s_.layout.part[unit];
  const bool is_whole = part == Part::kPosition || part == Part::kEncoderPosition ||
                        part == Part::kPatches || part == Part::kProjector;
  return is_whole ? 0 : s_.layout.units[unit].shared_elements;
}

bool Gradients::sums_over_tensor_ranks() const {
  for (UnitIndex u = 0; u < s_.layout.units.size(); ++u)
    if (s_.holds(u) && s_.layout.trained[u] && summed_elements(u) > 0) return true;
  return false;
}

void Gradients::sum_over_tensor_ranks(const Open& at) {
  const std::int64_t elements = summed_elements(at.unit);
  if (elements == 0) return;
  const Part part = s_.layout.part[at.unit];
  View shared = view_of(at.buffer, written(), {elements}, at.slot);
  shared.offset = size_of(written()) * s_.layout.units[at.unit].shared_from;
  s_.out.collective({Phase::kBackward, part, Action::kSumShared}, Lane::kCommTensor,
                    CollectiveKind::kAllReduce, s_.tensor_group(), shared, shared);
}

void Gradients::reduce_in_place(UnitIndex unit, Part part) {
  const Role role{Phase::kBackward, part, Action::kReduce};
  const View whole = home(unit, Access::kRead);
  const View own = piece(unit);
  if (s_.plan.zero_stage == 0) {
    if (s_.mesh.size(s_.holders(unit)) > 1)
      s_.out.collective(role, Lane::kCommReduce, CollectiveKind::kAllReduce, s_.holders(unit),
                        whole, own);
    return;
  }
  if (s_.is_sharded(unit))
    s_.out.collective(role, Lane::kCommReduce, CollectiveKind::kReduceScatter, s_.shard_group(unit),
                      whole, own);
  sum_copies(unit, own, part);
}

// One unit after the other, while the compute lane waits.
void Gradients::finish_backward() {
  if (partitioned() || overlaps() || s_.replicas() == 1) return;
  s_.for_each_unit([&](UnitIndex u, Ordinal) {
    wait(Action::kBeforeReduce, s_.layout.part[u], home(u, Access::kRead));
    reduce_in_place(u, s_.layout.part[u]);
  });
  s_.for_each_unit([&](UnitIndex u, Ordinal) {
    wait(Action::kAfterReduce, s_.layout.part[u], home(u, Access::kRead));
  });
}

// Of the compute lane, before a reduction or after it.
void Gradients::wait(Action action, Part part, const View& on) {
  s_.out.wait({Phase::kBackward, part, action}, Lane::kCompute, on);
}

// Adds up the copies of a shard that the sharding groups have.
void Gradients::sum_copies(UnitIndex unit, const View& shard, Part part) {
  const Group group = s_.copies_group(unit);
  if (s_.mesh.size(group) > 1)
    s_.out.collective({Phase::kBackward, part, Action::kSumCopies}, Lane::kCommReduce,
                      CollectiveKind::kAllReduce, group, shard, shard);
}

// All of a unit, in the type at home.
View Gradients::cast_whole(const View& source, const Open& at, Part part) {
  View whole = source;
  whole.dtype = dtype();
  whole.buffer = s_.body.get(declared({"cast_grad.", dtype(), buffers_.slots, Lives::kBriefly},
                                      s_.layout, at.unit, s_.layout.units[at.unit].name)
                                 .buffer);
  s_.out.kernel({Phase::kBackward, part, Action::kCastGradient}, Lane::kCommReduce, KernelId::kCast,
                {read(source), write(whole)});
  return whole;
}

// Full gradients of one micro-batch -> their shard, as far as there are ranks to share them.
View Gradients::reduce_to_shard(const Open& at, Part part) {
  const Unit& info = s_.layout.units[at.unit];
  View source = view_of(at.buffer, written(), {s_.layout.gathered_elements(at.unit)}, at.slot);
  if (!overlaps() && s_.replicas() > 1) wait(Action::kBeforeReduce, part, update(source));
  if (casts_before_reduction()) source = cast_whole(source, at, part);
  if (s_.is_sharded(at.unit)) {
    const bool straight = !off_gpu(at.unit) && !accumulates(at.unit) && source.dtype == dtype();
    const Ring reduced = ring("reduced.shard");
    View target = home(at.unit, Access::kWrite);
    if (!straight) {
      const BufferId id = s_.body.get({.name = reduced.name,
                                       .slot_size = reduced.slot_size,
                                       .slots = reduced.slots,
                                       .category = reduced.category,
                                       .dtype = source.dtype});
      target = view_of(id, source.dtype, {info.shard_elements}, at.ordinal.slot());
    }
    s_.out.collective(
        {Phase::kBackward, part, Action::kReduce}, Lane::kCommReduce,
        s_.layout.is_owned(at.unit) ? CollectiveKind::kReduce : CollectiveKind::kReduceScatter,
        s_.shard_group(at.unit), source, target);
    source = target;
  }
  sum_copies(at.unit, source, part);
  return source;
}

// Full gradients -> shard -> home, each stage only where the plan has it.
void Gradients::move_home(const Open& at, Part part) {
  const View shard = reduce_to_shard(at, part);
  const View target = home(at.unit, Access::kWrite);
  if (shard.buffer != target.buffer) {
    if (s_.layout.is_owned(at.unit)) s_.out.set_owners(s_.shard_group(at.unit));
    take_home(at, part, shard, target);
    s_.out.set_owners({});
  }
  if (!overlaps() && s_.replicas() > 1)
    wait(Action::kAfterReduce, part, read(off_gpu(at.unit) ? shard : target));
}

void Gradients::take_home(const Open& at, Part part, const View& shard, const View& target) {
  if (accumulates(at.unit) || shard.dtype != target.dtype) return combine(at, part, shard, target);
  if (off_gpu(at.unit)) {
    transfers_.send(Phase::kBackward, part, shard, target, ring("downloaded.shard"), at.ordinal);
  } else {
    s_.out.copy({Phase::kBackward, part, Action::kMove}, shard, target);
  }
}

// Adds the shard to its home or, where it is the first and only one, casts it.
void Gradients::combine(const Open& at, Part part, const View& shard, const View& target) {
  const Tier near = off_gpu(at.unit) ? Tier::kCpu : Tier::kGpu;
  const Lane lane = off_gpu(at.unit) ? Lane::kCpu : Lane::kCommReduce;
  const View source =
      transfers_.bring(Phase::kBackward, part, shard, near, ring("downloaded.shard"), at.ordinal);
  Ring held = ring("held.shard");
  held.read = Action::kReadGradient;
  if (!accumulates(at.unit)) {
    const View cast = transfers_.outbox(target, near, held, at.ordinal);
    s_.out.kernel({Phase::kBackward, part, Action::kCastGradient}, lane, KernelId::kCast,
                  {read(source), write(cast)});
    return transfers_.send(Phase::kBackward, part, cast, target, held, at.ordinal);
  }
  const View sum = transfers_.bring(Phase::kBackward, part, target, near, held, at.ordinal);
  s_.out.kernel({Phase::kBackward, part, Action::kAccumulate}, lane, KernelId::kAccumulate,
                {read(source), update(sum)});
  transfers_.send(Phase::kBackward, part, sum, target, held, at.ordinal);
}

void Gradients::sum_tied() {
  for (UnitIndex u = 0; u < s_.layout.units.size(); ++u)
    if (s_.has_twin(u) && s_.holds(u) && s_.layout.trained[u])
      s_.each_tile(s_.layout.units[u].tiles, [&] { sum_twins(u); });
}

void Gradients::sum_twins(UnitIndex unit) {
  const View home = piece(unit);
  const Ring staged{"tied.gradient", home.bytes()};
  const View at = transfers_.bring(Phase::kUpdate, Part::kHead, home, Tier::kGpu, staged, {});
  s_.out.collective({Phase::kUpdate, Part::kHead, Action::kReduce}, Lane::kCommReduce,
                    CollectiveKind::kAllReduce, {s_.mesh.named(kPipelineAxis), true}, at, at);
  transfers_.send(Phase::kUpdate, Part::kHead, at, home, staged, {});
}

View Gradients::piece(UnitIndex unit) const {
  View v = home(unit, Access::kRead);
  if (s_.plan.zero_stage != 1) return v;
  return own_shard(unit, v);
}

View Gradients::norm_part(UnitIndex unit, View piece) const {
  if (s_.plan.zero_stage >= 1) return piece;
  return own_shard(unit, piece);
}

View Gradients::own_shard(UnitIndex unit, View whole) const {
  const Unit& info = s_.layout.units[unit];
  whole.shape = {info.shard_elements};
  return s_.own_part(whole, info.shards);
}

}  // namespace zplan
