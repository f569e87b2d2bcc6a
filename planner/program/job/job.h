// Job: the whole training step, Programs of all rank classes plus what is needed to start it:
// which global tensor lives where, who the ranks are. A Job is frozen once placed; its fingerprint
// (fingerprint.h) is the hash of its canonical text.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "planner/program/job/program.h"

namespace zplan {

enum class Init : std::uint8_t { kZero, kOne, kNormal };

// How the ranks of a tensor parallel group and the tiles of an operator cut a tensor: piece
// k = place along kTensorAxis * tiles + tile of tp * tiles; of units whose ranks along kTensorAxis
// have experts of their own, k = tile of tiles. `kRows`: equal blocks of rows (first dimension).
// `kColumns`: the columns (last dimension) are segments side by side, say query, key and value; a
// piece has its equal part of each, side by side again.
struct Split {
  enum class Kind : std::uint8_t { kNone, kRows, kColumns };
  Kind kind = Kind::kNone;
  std::vector<std::int64_t> segments;  // widths of the whole tensor's, of kColumns
  friend bool operator==(const Split&, const Split&) = default;
};

// A global tensor, or one per layer ("{}" in the name is the layer index, "{-n}" that
// less n).
struct Tensor {
  std::string name;  // Hugging Face name
  Shape shape;       // [in, out] for matrices, [V, h] for the token embedding
  Init init = Init::kZero;
  double init_std = 0;
  bool decay = false;       // weight decay applies
  std::int64_t offset = 0;  // first element within its flat unit
  Split split{};
  // Rows of a piece of kRows, else 0. All pieces together may have more rows than the tensor, which
  // are padding.
  std::int64_t piece_rows = 0;
  std::int32_t member = 0;  // which layer of its unit's instance
  // So many ranks have an equal part of its rows each, of which pieces are cut: Unit::experts.
  std::int64_t blocks = 1;
};

// Consecutive layers of the model.
struct LayerRange {
  std::int32_t first = 0;
  std::int32_t count = 0;
  std::int32_t end() const { return first + count; }
  friend bool operator==(const LayerRange&, const LayerRange&) = default;
};

// Parameters that are gathered, reduced and updated together, flattened: matrices first (they
// decay), then vectors, those that all tensor parallel ranks hold alike at the end. What a rank
// holds of it is its tensor parallel piece. An operator worked off in tiles is `tiles` equal
// instances. Sharded units are cut into equal pieces of shard_elements, one for each place along
// the axes `shards`. Where each layer has an owner these are the layers of the instance: layer m,
// flattened so, is shard m.
struct Unit {
  std::string name;           // "embedding", "layer", "layer.qkv" ..
  bool per_layer = false;     // one instance per Program::unit_layers layers
  LayerRange layers{};        // of the model that have it, where not all have; else empty
  std::int32_t tiles = 1;     // instances per layer
  std::int64_t elements = 0;  // unpadded, of one rank's piece, per instance
  // The first so many elements of the flat unit decay; where each layer has an owner, the first of
  // each shard.
  std::int64_t decay_elements = 0;
  std::int64_t shared_elements = 0;  // the last of them, that every tensor parallel rank has
  std::int64_t shared_from = 0;      // flat element where those begin
  AxisSet experts{};  // along which the ranks have other experts, rows of each of its tensors
  AxisSet shards{};
  std::int64_t shard_elements = 0;  // padded; shard_elements * size of shards >= elements
  std::int64_t flat_elements = 0;   // padded flat size, = shard_elements * size of shards
  std::vector<Tensor> tensors;
};

// Where a class keeps the states of a unit: the flat unit, cut into equal pieces over the places
// along the axes `shards`; whole where there are none.
// Slot = number of the layer among those of the class that have the unit, / unit_layers * tiles +
// tile. Of a home in two buffers the first has the first slots, the other goes on from there.
struct StateHome {
  BufferId buffer = 0;
  AxisSet shards{};
  std::int32_t every = 1;  // elements of the unit that one element of the state is of
  std::optional<BufferId> rest{};

  std::vector<BufferId> buffers() const;
};
// The 4-bit codes that the parameters of a frozen unit are kept as (exec/kernels/four_bits.h).
enum class Codes : std::uint8_t { kNone, kNf4, kFp4 };
// master == param when the recipe keeps no separate copy.
struct UnitHome {
  std::uint32_t unit = 0;
  StateHome param, master;
  std::vector<StateHome> moments;  // what else the update keeps, in the order of its operands
  bool is_frozen = false;          // nothing updates it
  Codes codes = Codes::kNone;      // with them `moments` are scales and, of 8-bit ones, constants

  // What is as large as the unit and changes with every update.
  const StateHome& updated() const {
    return moments.empty() || is_frozen ? master : moments.front();
  }
  std::vector<const StateHome*> states() const;
  std::vector<BufferId> buffers() const;
};

struct Placement {
  std::array<Bytes, kTierCount> slab{};  // bytes per rank
  std::array<Bytes, kTierCount> live_peak{};
  std::vector<Bytes> offset;  // of each buffer within its tier's slab
};

// All ranks of one pipeline stage: their programs are equal after substituting the coordinates
// along all other axes (mesh.h).
struct RankClass {
  std::int32_t stage = 0;
  // Those of each of its chunks (schedule/schedule.h): multiples of Program::unit_layers.
  std::vector<LayerRange> layers;
  Program program;
  std::vector<UnitHome> homes;
  Placement placement;  // empty until placed

  std::int32_t layer_count() const;
  // The place of a layer of the model among those of the class; none: it has no such layer.
  std::optional<std::int64_t> index_of(std::int64_t layer) const;
  std::int64_t layer_at(std::int64_t index) const;  // the other way round; index < layer_count()
  // Those of the class that have a unit of the layers.
  std::vector<std::int64_t> layers_with(const Unit& unit) const;
};

// How the host launches what devices run: op by op, or what needs no host in between as graphs.
enum class LaunchMode : std::uint8_t { kStream, kGraph };

struct Job {
  std::string kernel_set;  // "cpu.f32"
  std::string model;       // name, for reports only
  Mesh mesh;
  LaunchMode launch = LaunchMode::kStream;
  std::int64_t global_batch = 1;  // sequences per step
  std::int64_t micro_batch = 1;   // sequences per replica and micro-step
  std::int64_t micro_steps = 1;
  std::int64_t sequence = 1;
  std::vector<Unit> units;
  std::vector<RankClass> classes;  // one per place along kPipelineAxis
  bool placed = false;

  std::int32_t world() const { return mesh.world(); }
  std::int32_t stages() const { return mesh.axes[mesh.pipeline()].size; }
  // Ranks of one stage.
  std::int32_t replicas() const { return world() / stages(); }
  std::int32_t stage_of(std::int32_t rank) const { return mesh.point(rank)[mesh.pipeline()]; }
  const RankClass& class_of(std::int32_t rank) const {
    return classes[static_cast<std::size_t>(stage_of(rank))];
  }
  // Flat elements of a unit in one piece of a state that is cut so.
  std::int64_t piece_elements(const Unit& unit, AxisSet shards) const {
    return unit.flat_elements / mesh.size(shards);
  }
};

// Operation id: the same in every Timeline of a Job. Arithmetic over the role and the loop
// variables, hence stable under plan changes that do not touch the operation.
using OpId = std::uint64_t;
constexpr OpId op_id(Role role, const Env& env) {
  return (static_cast<OpId>(role.phase) << 60) | (static_cast<OpId>(role.part) << 52) |
         (static_cast<OpId>(role.action) << 44) | (static_cast<OpId>(env.layer & 0xffff) << 28) |
         (static_cast<OpId>(env.tile & 0xff) << 20) | static_cast<OpId>(env.micro & 0xfffff);
}
// Of an instance of a node: the layer is that of the model.
constexpr OpId op_id(const Program& program, const Node& node, Env env) {
  env.layer = env.layer * program.unit_layers + node.member;
  return op_id(node.role, env);
}
constexpr Role role_of(OpId id) {
  return {static_cast<Phase>(id >> 60), static_cast<Part>((id >> 52) & 0xff),
          static_cast<Action>((id >> 44) & 0xff)};
}
// The kind of operation that the lowering puts on this lane under this action.
OpKind kind_of(Action action, Lane lane);
std::string op_name(OpId id);  // "forward.qkv.compute[m0,l3]", "..[m0,l3,t2]" of tile 2

}  // namespace zplan
