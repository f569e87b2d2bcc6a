// What every part of the lowering of one pipeline stage shares: the decisions, the shapes, the
// program being built.
#pragma once

#include <functional>
#include <optional>
#include <string>

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
  std::size_t kind = 0;  // where each kind of layers has layers of its own

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
  std::int32_t layers = 0;
  std::vector<Segment> segments{};
  // Slots for the micro-batches that have gone forward and whose gradient of the weights is still
  // to come [Narayanan21 sec 2.2], and for those between the two parts of backward; 0: it is one
  // pass.
  std::int32_t in_flight = 1;
  std::int32_t between_parts = 0;
  std::int32_t loaded = 2;  // those whose tokens are there

  // What the names of its buffers begin with.
  std::string prefix() const { return number == 0 ? "" : "chunk" + std::to_string(number) + "."; }
};

// Numbers the uses of a ring: an instance is use base + per_layer * layer + per_tile * tile.
struct Ordinal {
  std::int32_t base = 0;
  std::int32_t per_layer = 0;
  std::int32_t per_tile = 0;
  SlotExpr slot() const { return {base, 0, per_layer, per_tile}; }
};

// Units by the home of their optimizer states: one for all, or the nearer of two (Plan::placement)
// and the other.
enum class HomeOf : std::uint8_t { kAll, kNear, kFar };
// What is outside the layers goes with those beside it: what comes before the first layer is near,
// and what is there both before and after.
constexpr HomeOf home_outside_layers(Held held) {
  return held == Held::kLastStage ? HomeOf::kFar : HomeOf::kNear;
}

struct Stage : Sizes {
  const Mesh& mesh;
  const Layout& layout;
  ProgramBuilder& out;
  BodyBuffers& body;

  const ChunkMap& pieces;
  std::int32_t index = 0;
  std::vector<Chunk> chunks{};
  std::size_t current = 0;  // the chunk that is being emitted
  std::int32_t micro_steps = 1;
  // The last backwards of a step come within the next one, before this stage's update; and whether
  // what is emitted comes after that update (planner/program/schedule/double_buffered.h).
  bool across_steps = false;
  bool after_update = false;
  View workspace{};  // scratch of the compute lane
  // Of the units that are emitted; in loops that go by it.
  HomeOf home_of_states = HomeOf::kAll;
  // A layer is replayed whose backward comes after those of others.
  bool replays_ahead = false;
  // Of the step [2] f64: the auxiliary loss of experts, and choices of one that were dropped; and
  // the scalars of the step.
  View expert_sums{}, scalars{};
  // Of each unit whose routers have a bias that moves: the choices of each expert (choice_bias.h).
  std::vector<std::optional<BufferId>> choice_loads{};
  // Of the micro-batch that is emitted, of all its tokens: what an encoder gives, and its gradient,
  // of which each tensor parallel rank has a part.
  View encoded{}, encoded_gradient{};

  // What is emitted is of this chunk from here on.
  void enter(const Chunk& chunk) { current = static_cast<std::size_t>(chunk.number); }
  const Chunk& chunk() const { return chunks[current]; }

  // Whether the stage, or a chunk of it, has the first or the last piece of the model.
  std::int32_t first_stage() const { return pieces.at(0).rank; }
  std::int32_t last_stage() const { return pieces.at(pieces.size() - 1).rank; }
  bool is_first() const { return first_stage() == index; }
  bool is_last() const { return last_stage() == index; }
  bool is_first(const Chunk& chunk) const { return chunk.piece == 0; }
  bool is_last(const Chunk& chunk) const { return chunk.piece == pieces.size() - 1; }

  // Slots of every ring of gather units: the one in use and those ahead of it or behind.
  std::int32_t ring_slots() const { return plan.prefetch + 1; }

  // One iteration of a layer loop goes through so many layers.
  std::int32_t unit_layers() const { return layout.layers_together(); }
  std::int32_t first_unit() const { return chunk().first_layer / unit_layers(); }
  std::int32_t units() const { return chunk().layers / unit_layers(); }
  // Loops over some of the chunk's units, in whose iterations layers that take turns have the same
  // places: whole turns, then the rest.
  std::vector<UnitLoop> unit_loops(std::int32_t first, std::int32_t units) const;
  // Emits the body once per layer of an iteration, or per `together` of them, at the first of
  // these; `begin_unit` before the first of a unit.
  void each_layer(const UnitLoop& loop, bool upwards, std::int32_t together,
                  const std::function<void()>& begin_unit, const std::function<void()>& emit);
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
  // Of those the ones that have the nearer optimizer states: the first.
  std::int32_t near_copies(UnitIndex unit) const { return plan.near_units(copies(unit)); }
  // Those of the chunk that have the unit.
  LayerRange layers_with(UnitIndex unit, const Chunk& chunk) const;
  // Of these the ones whose optimizer states are there.
  LayerRange layers_of(HomeOf home, UnitIndex unit, const Chunk& chunk) const;
  // How many layers of the stage's first chunks have the unit.
  std::int32_t layers_before(std::size_t chunk, UnitIndex unit) const;
  // Emits the body once per tile, binding Var::kTile where there are several.
  void each_tile(std::int32_t count, const std::function<void()>& emit);
  // All trained units of the stage in a fixed order; the ordinal counts uses within each loop.
  // Where the loops go by the homes of optimizer states each is of layers that have one: the order
  // of the units is the same.
  using EmitUnit = std::function<void(UnitIndex, Ordinal)>;
  enum class Loops : std::uint8_t { kWhole, kByHome };
  void for_each_unit(const EmitUnit& emit, Loops loops = Loops::kWhole) {
    for_each_unit_outside_layers(emit, loops);
    for_each_layer_unit(emit, loops);
  }
  void for_each_unit_outside_layers(const EmitUnit& emit, Loops loops = Loops::kWhole);
  void for_each_layer_unit(const EmitUnit& emit, Loops loops = Loops::kWhole);
  // Those of such layers of the current chunk.
  void each_unit_of(const std::vector<UnitIndex>& run, const LayerRange& layers,
                    const EmitUnit& emit);

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
  // Of kernels that draw for each element of the rank's tokens [T, h], and how they begin.
  Attributes drawn_sequences() const {
    return {std::int64_t{plan.parallel.dp} * b(), by_place(kDataAxis, b()), unit_layers()};
  }
  Attributes drawn_tokens() const;
  // `whole` views the first part of a whole; each rank gets the part that belongs to its place
  // along these axes.
  View own_part(View whole, AxisSet axes) const {
    whole.strides = mesh.steps_over(axes, whole.bytes().value);
    return whole;
  }

  bool holds(UnitIndex unit) const;
  // Whether two stages have the unit: the one with the first piece of the model and the one with
  // the last.
  bool has_twin(UnitIndex unit) const {
    return layout.held[unit] == Held::kBothEnds && first_stage() != last_stage();
  }
  // Whether the stage has both ends of the model, and comes to them in different passes.
  bool has_ends_apart() const { return is_first() && is_last() && pieces.size() > 1; }
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
