// What every part of the lowering of one pipeline stage shares: the decisions, the shapes, the
// program being built.
#pragma once

#include <functional>

#include "models/model_config.h"
#include "planner/lower/body_buffers.h"
#include "planner/lower/layout.h"
#include "planner/lower/program_builder.h"
#include "planner/plan/plan.h"
#include "planner/program/kernel_set.h"

namespace zplan {

// Consecutive units of layers of a stage that are recomputed alike: one loop forward, one backward.
struct Segment {
  std::int32_t first_unit = 0;
  std::int32_t units = 0;
  Recompute recompute = Recompute::kNone;
  OperatorSet replayed{};  // of mode kOperators

  std::int32_t last_unit() const { return first_unit + units - 1; }
  Repeat up() const { return {units, Var::kLayer, first_unit, 1}; }
  Repeat down() const { return {units, Var::kLayer, last_unit(), -1}; }
};

// The how-many-th use of a ring an instance is: base + per_layer * layer + per_tile * tile.
struct Ordinal {
  std::int32_t base = 0;
  std::int32_t per_layer = 0;
  std::int32_t per_tile = 0;
  SlotExpr slot() const { return {base, 0, per_layer, per_tile}; }
};

struct Stage {
  const Plan& plan;
  const ModelConfig& model;
  const Mesh& mesh;
  const Layout& layout;
  const KernelSet& kernels;
  ProgramBuilder& out;
  BodyBuffers& body;

  std::int32_t index = 0;
  std::int32_t first_layer = 0;
  std::int32_t layers = 0;
  std::vector<Segment> segments{};
  std::int32_t micro_steps = 1;
  std::int32_t in_flight = 1;  // micro-batches between forward and backward [Narayanan21 sec 2.2]
  View workspace;              // scratch of the compute lane

  bool is_first() const { return index == 0; }
  bool is_last() const { return index == plan.parallel.pp - 1; }
  std::int32_t dp() const { return plan.parallel.dp; }
  std::int32_t tp() const { return plan.parallel.tp; }
  std::int32_t tiles() const { return plan.tiles; }
  bool sequence_parallel() const { return plan.parallel.sequence_parallel; }
  bool recomputes_all() const { return plan.all_full(); }
  DType compute() const { return kernels.compute; }

  std::int64_t b() const { return plan.batch.micro_batch; }
  std::int64_t s() const { return plan.batch.sequence; }
  std::int64_t tokens() const { return b() * s(); }
  // Of norms and residuals: with sequence parallelism each rank has a part [Korthikanti22 sec 4.2].
  std::int64_t local_tokens() const { return sequence_parallel() ? tokens() / tp() : tokens(); }
  std::int64_t h() const { return model.hidden; }
  // Of one tile of one rank.
  std::int64_t pieces() const { return std::int64_t{tp()} * tiles(); }
  std::int64_t heads() const { return model.heads / pieces(); }
  std::int64_t kv_heads() const { return model.kv_heads / pieces(); }
  std::int64_t qkv_width() const { return model.qkv_width() / pieces(); }
  std::int64_t attention_width() const { return heads() * model.head_size(); }
  std::int64_t ffn() const { return model.ffn / pieces(); }
  std::int64_t up_width() const { return model.up_width() / pieces(); }

  // Slots of every ring of gather units: the one in use and those ahead of it or behind.
  std::int32_t ring_slots() const { return plan.prefetch + 1; }

  // Layers are gathered so many at a time: one iteration of a layer loop.
  std::int32_t unit_layers() const { return plan.unit_layers; }
  std::int32_t first_unit() const { return first_layer / unit_layers(); }
  std::int32_t units() const { return layers / unit_layers(); }
  // Emits the body once per layer of such an iteration.
  void each_layer(bool upwards, const std::function<void()>& emit);
  // Slot of a layer's own data inside a layer loop, one per layer from `first` on.
  SlotExpr layer_slot(std::int32_t first, std::int32_t per_micro) const {
    return {out.member() - first, per_micro, unit_layers()};
  }

  // Over all layers of the stage, binding Var::kLayer.
  Repeat all_layers() const { return {units(), Var::kLayer, first_unit(), 1}; }
  // Slot of a unit's state inside such a loop, and that over its tiles.
  SlotExpr unit_slot(UnitIndex unit) const;
  std::int32_t copies(UnitIndex unit) const;  // slots of such a state
  // Emits the body once per tile, binding Var::kTile where there are several.
  void each_tile(std::int32_t count, const std::function<void()>& emit);
  // All units of the stage in a fixed order; the ordinal counts uses within each loop.
  void for_each_unit(const std::function<void(UnitIndex, Ordinal)>& emit);

  // Of ranks of one stage.
  Group tensor_group() const { return {mesh.named(kTensorAxis)}; }
  Group data_group() const { return {mesh.named(kDataAxis)}; }
  // Ranks among which the states of a unit are sharded, and those that have the same shard.
  Group shard_group(UnitIndex unit) const { return {layout.units[unit].shards}; }
  Group copies_group(UnitIndex unit) const {
    return {data_group().axes - layout.units[unit].shards};
  }
  // The stage so many further.
  Peer neighbour(std::int8_t step) const {
    return {static_cast<std::uint8_t>(mesh.find(kPipelineAxis).value()), step, false};
  }
  // A view of the rank's own part of a whole: that of its place along these axes.
  View own_part(View whole, AxisSet axes) const {
    whole.strides = mesh.steps_over(axes, whole.bytes().value);
    return whole;
  }

  bool holds(UnitIndex unit) const;
  // An activation that lives within the body.
  View transient(const std::string& name, Shape shape, DType dtype);
};

// A dense view of a whole slot.
inline View view_of(BufferId buffer, DType dtype, Shape shape, SlotExpr slot = {}) {
  View v;
  v.buffer = buffer;
  v.dtype = dtype;
  v.shape = shape;
  v.slot = slot;
  return v;
}

}  // namespace zplan
