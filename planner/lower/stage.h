// What every part of the lowering of one pipeline stage shares: the decisions, the shapes, the
// program being built.
#pragma once

#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "planner/lower/body_buffers.h"
#include "planner/lower/layout.h"
#include "planner/lower/program_builder.h"
#include "planner/lower/replay.h"
#include "planner/lower/sizes.h"
#include "planner/program/schedule/schedule.h"

namespace zplan {

// Consecutive units of layers of a stage that are alike and recomputed alike: one loop forward, one
// backward.
struct Segment {
  std::int32_t first_unit = 0;
  std::int32_t units = 0;
  Replay replay{};
  std::size_t kind = 0;     // where each kind of layers has layers of its own
  std::int32_t module = 0;  // the layer is that of this module; 0: they are the model's

  std::int32_t last_unit() const { return first_unit + units - 1; }
};

// A loop over units of layers, several in each iteration where layers come in turns.
struct UnitLoop {
  std::int32_t first = 0;  // unit
  std::int32_t count = 0;  // of iterations
  std::int32_t together = 1;

  Repeat up() const { return {count, Var::kLayer, first, together}; }
  Repeat down() const { return {count, Var::kLayer, first + (count - 1) * together, -together}; }
};

// Consecutive layers that the stage works off in one pass (planner/program/schedule/schedule.h).
struct Chunk {
  std::int32_t number = 0;  // among those of the stage
  std::int32_t piece = 0;   // of the model: its position
  std::int32_t first_layer = 0;
  std::int32_t layers = 0;   // those of modules among them
  std::int32_t modules = 0;  // of multi-token prediction, behind the model's last layer
  std::vector<Segment> segments{};
  // Slots for the micro-batches that have gone forward and whose gradient of the weights is still
  // to come [Narayanan21 sec 2.2], and for those between the two parts of backward; 0: it is one
  // pass.
  std::int32_t in_flight = 1;
  std::int32_t between_parts = 0;
  std::int32_t loaded = 2;  // those whose tokens are there
  // Two micro-batches are in turns: every other one keeps in reverse what its layers leave, in as
  // many places as one has and those of the layers of an iteration (schedule.h, Pass::reversed).
  bool in_turns = false;
  // The layers of a vision tower that the stage has besides, ahead of the first piece.
  LayerRange tower{};
  std::string own_prefix{};  // of a tower's own chunk

  // What the names of its buffers begin with.
  std::string prefix() const {
    return own_prefix + (number == 0 ? "" : "chunk" + std::to_string(number) + ".");
  }
  std::int32_t model_layers() const { return layers - modules; }
  // Returns the layer of a module, which is counted from 1.
  std::int32_t layer_of(std::int32_t module) const {
    return first_layer + model_layers() + module - 1;
  }
};

// Numbers the uses of a ring: an instance is use base + per_layer * layer + per_tile * tile.
struct Ordinal {
  std::int32_t base = 0;
  std::int32_t per_layer = 0;
  std::int32_t per_tile = 0;
  SlotExpr slot() const { return {base, 0, per_layer, per_tile}; }
};

// Where a state has two homes what is outside the layers goes with those beside it: what comes
// before the first layer is near, and what is there both before and after.
constexpr bool is_near_outside_layers(Held held) { return held != Held::kLastStage; }

// States whose homes a loop over layers goes by.
using ModelStates = std::vector<ModelState>;

// What a stack of layers adds to scores by distance, [a, 2 s - 1] of the rank's heads, and the sum
// of its layers' gradients of it.
struct PositionBias {
  View bias, gradient;
};

struct Stage : Sizes {
  const Mesh& mesh;
  const Layout& layout;
  ProgramBuilder& out;
  BodyBuffers& body;

  const ChunkMap& chunk_map;  // which stage has which layers
  AxisSet pair{};  // along which the other replica is that takes over where the way turns
  std::int32_t index = 0;
  std::vector<Chunk> chunks{};
  std::size_t current = 0;  // the chunk that is being emitted
  std::int32_t micro_steps = 1;
  // The last backwards of a step come within the next one, before this stage's update; and whether
  // what is emitted comes after that update (planner/program/schedule/double_buffered.h).
  bool across_steps = false;
  bool after_update = false;
  // A chunk updates after each of its backwards (planner/program/schedule/weight_stashing.h), from
  // the gradients of so many micro-batches before that one.
  bool updates_each = false;
  std::int32_t gradients_behind = 0;
  View workspace{};  // scratch of the compute lane
  // The first unit of the loop that is emitted.
  std::int32_t first_of_loop = 0;
  // Says which module of multi-token prediction is emitted, from 1 on; 0: the model.
  std::int32_t module = 0;
  // A layer is replayed whose backward comes after those of others.
  bool replays_ahead = false;
  // The pass that is emitted keeps what its layers leave in reverse.
  bool reversed = false;
  // Of the step [2] f64: the auxiliary loss of experts, and choices of one that were dropped; and
  // the scalars of the step.
  View expert_sums{}, scalars{};
  // Of each unit whose routers have a bias that moves: the choices of each expert (choice_bias.h).
  std::vector<std::optional<BufferId>> choice_loads{};
  // Of the micro-batch that is emitted, of all its tokens: what an encoder gives, and its gradient,
  // of which each tensor parallel rank has a part.
  View encoded{}, encoded_gradient{};
  // Of the same, of stacks whose forward has begun and whose backward has not ended; the layers
  // that are emitted are of the last.
  std::vector<PositionBias> position_biases{};

  // What is emitted is of this chunk from here on.
  void enter(const Chunk& chunk) { current = static_cast<std::size_t>(chunk.number); }
  // The pass is emitted from here on.
  void enter(const Pass& pass) {
    enter(chunks[static_cast<std::size_t>(pass.chunk)]);
    reversed = pass.reversed;
  }
  const Chunk& chunk() const { return chunks[current]; }

  // Whether the stage, or a chunk of it, has the first or the last piece of the model.
  std::int32_t first_stage() const { return chunk_map.at(0).rank; }
  std::int32_t last_stage() const { return chunk_map.at(chunk_map.size() - 1).rank; }
  bool is_first() const { return first_stage() == index; }
  bool is_last() const { return last_stage() == index; }
  bool is_first(const Chunk& chunk) const { return chunk.piece == 0; }
  bool is_last(const Chunk& chunk) const { return chunk.piece == chunk_map.size() - 1; }

  // Slots of every ring of gather units: the one in use and those ahead of it or behind.
  std::int32_t ring_slots() const { return plan.prefetch + 1; }

  // One iteration of a layer loop goes through so many layers.
  std::int32_t unit_layers() const { return layout.layers_together(); }
  std::int32_t first_unit() const { return chunk().first_layer / unit_layers(); }
  std::int32_t units() const { return chunk().layers / unit_layers(); }
  // Loops over some of the chunk's units, in whose iterations layers that take turns have the same
  // places: whole turns, then the rest. All iterations of a loop have these states in the same
  // home; a turn in whose midst that ends is a loop by itself.
  std::vector<UnitLoop> unit_loops(std::int32_t first, std::int32_t units,
                                   const ModelStates& states) const;
  std::set<std::int32_t> borders(std::int32_t first, std::int32_t units,
                                 const ModelStates& states) const;
  // Returns whether one of two micro-batches in turns finds room where the other has left it: an
  // iteration of a loop over this segment comes when as many backwards of it are done. Where
  // iterations go through several units none does.
  bool shares_places(const Chunk& chunk, const Segment& segment) const;
  // The loop is emitted from here on.
  void enter(const UnitLoop& loop) { first_of_loop = loop.first; }
  // Emits the body once per layer of an iteration, or per `together` of them, at the first of
  // these; `begin_unit` before the first of a unit.
  void each_layer(const UnitLoop& loop, bool upwards, std::int32_t together,
                  const std::function<void()>& begin_unit, const std::function<void()>& emit);
  // Where the stage has several chunks, nodes are named by the first layer of theirs. The views of
  // a layer are made before that, since the same number picks its slot.
  void named_by_chunk(const std::function<void()>& emit);
  // Which of the layers of its unit is emitted.
  std::int32_t unit_member() const { return out.member() % unit_layers(); }
  // Of the layers with one checkpoint: which is emitted.
  std::int32_t replay_member() const { return out.member() % plan.checkpoint_layers; }
  // Within a body each of them has buffers of its own under this name.
  std::string own_name(std::string name) const;

  // Slot of a unit's state inside a loop over the chunk's layers, and that over its tiles.
  SlotExpr unit_slot(UnitIndex unit) const;
  // How often the stage has the unit, tiles apart.
  std::int32_t copies(UnitIndex unit) const {
    return layout.units[unit].per_layer ? layers_before(chunks.size(), unit) / unit_layers() : 1;
  }
  // Of those the ones that have the nearer home of a state: the first.
  std::int32_t near_copies(ModelState state, UnitIndex unit) const {
    return plan.placement.near_units(state, copies(unit));
  }
  // The first unit of the chunk that has the farther home, where the layers of this one do; it may
  // be in another chunk. And whether what is emitted of the unit has the nearer one, if there is.
  std::int32_t first_far(ModelState state, UnitIndex unit) const;
  bool is_near(ModelState state, UnitIndex unit) const;
  // Those of the chunk that have the unit.
  LayerRange layers_with(UnitIndex unit, const Chunk& chunk) const;
  // How many layers of the stage's first chunks have the unit.
  std::int32_t layers_before(std::size_t chunk, UnitIndex unit) const;
  // Emits the body once per tile, binding Var::kTile where there are several.
  void each_tile(std::int32_t count, const std::function<void()>& emit);
  // The slot of the unit for the micro-batch so many before that of the pass, in a ring that has
  // `copies` of every unit for each.
  SlotExpr unit_slot_of_micro(UnitIndex unit, std::int32_t before) const {
    const std::int32_t all = copies(unit) * layout.units[unit].tiles;
    SlotExpr slot = unit_slot(unit);
    slot.base -= before * all;
    slot.per_micro = all;
    return slot;
  }
  // All trained units of the stage, or of the current chunk where chunks update by themselves, in a
  // fixed order; the ordinal counts uses within each loop. The loops go by the homes of these
  // states: the order of the units is the same. `begin` is called ahead of each loop with a unit of
  // it, and ahead of each unit outside the layers.
  using EmitUnit = std::function<void(UnitIndex, Ordinal)>;
  using BeginLoop = std::function<void(UnitIndex)>;
  void for_each_unit(const EmitUnit& emit, const ModelStates& states = {},
                     const BeginLoop& begin = {}) {
    for_each_unit_outside_layers(emit, begin);
    for_each_layer_unit(emit, states, begin);
  }
  void for_each_unit_outside_layers(const EmitUnit& emit, const BeginLoop& begin = {});
  void for_each_layer_unit(const EmitUnit& emit, const ModelStates& states = {},
                           const BeginLoop& begin = {});
  // Those of the current chunk, which have layers in common.
  void each_unit_of(const std::vector<UnitIndex>& run, const ModelStates& states,
                    const EmitUnit& emit, const BeginLoop& begin);

  // Groups of ranks of one stage.
  Group tensor_group() const { return {mesh.named(kTensorAxis)}; }
  // Those with the same part of the model.
  Group replica_group() const {
    return {mesh.all() - mesh.named(kTensorAxis) - mesh.named(kPipelineAxis)};
  }
  // Ranks among which the states of a unit are sharded, and those that have the same shard.
  Group shard_group(UnitIndex unit) const { return {layout.units[unit].shards}; }
  Group copies_group(UnitIndex unit) const {
    return {holders(unit).axes - layout.units[unit].shards};
  }
  // Replicas that have the unit: of experts not all.
  Group holders(UnitIndex unit) const {
    return {replica_group().axes - layout.units[unit].experts};
  }
  bool is_sharded(UnitIndex unit) const { return mesh.size(shard_group(unit)) > 1; }
  // A number that grows by `step` from one place along an axis to the next.
  Attribute by_place(std::string_view axis, std::int64_t step) const {
    return {0, mesh.steps_over(mesh.named(axis), step)};
  }
  // The first of the chunk's sequences among those of all replicas: on the way out of a pair they
  // are those of the other one.
  Attribute first_sequence() const {
    Attribute first = by_place(kDataAxis, b());
    if (pair.empty() || chunk().number == 0) return first;
    for (std::size_t axis = 0; axis < mesh.axes.size(); ++axis)
      if (pair.has(axis)) {
        first.base += first.steps[axis];
        first.steps[axis] = -first.steps[axis];
      }
    return first;
  }
  // Of kernels that draw for each element of the rank's tokens [T, h], and how they begin.
  Attributes drawn_sequences() const {
    return {std::int64_t{plan.parallel.dp} * b(), first_sequence(), unit_layers()};
  }
  Attributes drawn_tokens() const;
  // `whole` views the first part of a whole; each rank gets the part that belongs to its place
  // along these axes.
  View own_part(View whole, AxisSet axes) const {
    whole.strides = mesh.steps_over(axes, whole.bytes().value);
    return whole;
  }

  bool holds(UnitIndex unit) const;
  // Whether the current chunk is where a unit outside the layers is, which not both ends have.
  bool is_of_chunk(UnitIndex unit) const {
    return layout.held[unit] == Held::kFirstStage ? is_first(chunk()) : is_last(chunk());
  }
  // Whether two stages have the unit: the one with the first piece of the model and the one with
  // the last.
  bool has_twin(UnitIndex unit) const {
    return layout.held[unit] == Held::kBothEnds && first_stage() != last_stage();
  }
  // Whether the stage has both ends of the model, and comes to them in different passes.
  bool has_ends_apart() const { return is_first() && is_last() && chunk_map.size() > 1; }
  // An activation that lives within the body, of the layer that is emitted.
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
