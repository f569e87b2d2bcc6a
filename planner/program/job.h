// Job: the whole training step, Programs of all rank classes plus what is needed to start it:
// which global tensor lives where, who the ranks are. A Job is frozen once placed; its fingerprint
// (fingerprint.h) is the hash of its canonical text.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "planner/program/program.h"

namespace zplan {

enum class Init : std::uint8_t { kZero, kOne, kNormal };

// A global tensor, or one per layer ("{}" in the name is the layer index).
// How the ranks of a tensor parallel group and the tiles of an operator cut a tensor: piece
// k = tp_index * tiles + tile of tp * tiles. `kRows`: equal blocks of rows (first dimension).
// `kColumns`: the columns (last dimension) are segments side by side, say query, key and value; a
// piece has its equal part of each, side by side again.
struct Split {
  enum class Kind : std::uint8_t { kNone, kRows, kColumns };
  Kind kind = Kind::kNone;
  std::vector<std::int64_t> segments;  // widths of the whole tensor's, of kColumns
  friend bool operator==(const Split&, const Split&) = default;
};

struct Tensor {
  std::string name;  // Hugging Face name
  Shape shape;       // [in, out] for matrices, [V, h] for the token embedding
  Init init = Init::kZero;
  double init_std = 0;
  bool decay = false;       // weight decay applies
  std::int64_t offset = 0;  // first element within its flat unit
  Split split{};
  // Rows of a piece of kRows: all pieces together may have more than the tensor (padding). Else 0.
  std::int64_t piece_rows = 0;
  std::int32_t member = 0;  // which layer of its unit's instance
};

// Parameters that are gathered, reduced and updated together, flattened: matrices first (they
// decay), then vectors, those that all tensor parallel ranks hold alike at the end. What a rank
// holds of it is its tensor parallel piece. An operator worked off in tiles is `tiles` equal
// instances. Sharded units are cut into Job::shards equal pieces of shard_elements. Where each
// layer has an owner these are the layers of the instance: layer m, flattened so, is shard m.
struct Unit {
  std::string name;           // "embedding", "layer", "layer.qkv" ..
  bool per_layer = false;     // one instance per Program::unit_layers layers
  std::int32_t tiles = 1;     // instances per layer
  std::int64_t elements = 0;  // unpadded, of one rank's piece, per instance
  // The first so many elements of the flat unit decay; where each layer has an owner, the first of
  // each shard.
  std::int64_t decay_elements = 0;
  std::int64_t shared_elements = 0;  // the last of them, that every tensor parallel rank has
  std::int64_t shared_from = 0;      // flat element where those begin
  std::int64_t shard_elements = 0;   // padded; shard_elements * shards >= elements
  std::int64_t flat_elements = 0;    // padded flat size, = shard_elements * shards
  std::vector<Tensor> tensors;
};

// Where a class keeps the states of a unit. `sharded`: element i of the buffer is flat element
// shard_index * shard_elements + i; else the buffer holds the flat unit.
// Slot = (layer - first_layer) / unit_layers * tiles + tile.
// master == param when the recipe keeps no separate copy.
struct StateHome {
  BufferId buffer = 0;
  bool sharded = false;
};
struct UnitHome {
  std::uint32_t unit = 0;
  StateHome param, master, moment1, moment2;
};

struct Placement {
  std::array<Bytes, kTierCount> slab{};  // bytes per rank
  std::array<Bytes, kTierCount> live_peak{};
  std::vector<Bytes> offset;  // of each buffer within its tier's slab
};

// All ranks of one pipeline stage: their programs differ only in the dp and tp index.
struct RankClass {
  std::int32_t stage = 0;
  std::int32_t first_layer = 0;  // this and layers: multiples of Program::unit_layers
  std::int32_t layers = 0;
  Program program;
  std::vector<UnitHome> homes;
  Placement placement;  // empty until placed
};

// Which of data and pipeline varies faster over the ranks; the tensor index varies fastest.
enum class RankOrder : std::uint8_t { kDataFirst, kPipelineFirst };

// How the host launches what devices run: op by op, or what needs no host in between as graphs.
enum class LaunchMode : std::uint8_t { kStream, kGraph };

struct Coordinates {
  std::int32_t dp = 0, tp = 0, stage = 0;
  friend bool operator==(const Coordinates&, const Coordinates&) = default;
};

struct Job {
  std::string kernel_set;  // "cpu.f32"
  std::string model;       // name, for reports only
  std::int32_t dp = 1;
  std::int32_t tp = 1;
  std::int32_t pp = 1;
  std::int32_t shards = 1;  // ranks that share one copy of a sharded state; divides dp
  RankOrder order = RankOrder::kDataFirst;
  LaunchMode launch = LaunchMode::kStream;
  std::int64_t global_batch = 1;  // sequences per step
  std::int64_t micro_batch = 1;   // sequences per replica and micro-step
  std::int64_t micro_steps = 1;
  std::int64_t sequence = 1;
  std::vector<Unit> units;
  std::vector<RankClass> classes;  // one per stage
  bool placed = false;

  std::int32_t world() const { return dp * tp * pp; }
  // Ranks that take part in a group. With one stage the embedding group is each rank alone.
  std::int32_t group_size(GroupKind group) const {
    switch (group) {
      case GroupKind::kData:
        return dp;
      case GroupKind::kEmbedding:
        return pp > 1 ? 2 : 1;
      case GroupKind::kWorld:
        return world();
      case GroupKind::kTensor:
        return tp;
      case GroupKind::kShard:
        return shards;
      case GroupKind::kReplica:
        return dp / shards;
    }
    return 1;
  }
  // First and last stage hold the two copies of a tied embedding.
  bool in_group(std::int32_t stage, GroupKind group) const {
    return group != GroupKind::kEmbedding || stage == 0 || stage == pp - 1;
  }
  // Which shard of a sharded state a rank holds. Ranks of one sharding group have consecutive dp
  // indices.
  std::int32_t shard_index(std::int32_t dp_index) const { return dp_index % shards; }
  std::int32_t rank_of(const Coordinates& at) const {
    const std::int32_t outer =
        order == RankOrder::kDataFirst ? at.stage * dp + at.dp : at.dp * pp + at.stage;
    return outer * tp + at.tp;
  }
  Coordinates coordinates_of(std::int32_t rank) const {
    const std::int32_t outer = rank / tp;
    if (order == RankOrder::kDataFirst) return {outer % dp, rank % tp, outer / dp};
    return {outer / pp, rank % tp, outer % pp};
  }
};

// Operation id: the same in every Timeline of a Job. Arithmetic over the role and the loop
// variables, hence stable under plan changes that do not touch the operation.
using OpId = std::uint64_t;
constexpr OpId op_id(Role role, const Env& env) {
  return (static_cast<OpId>(role.phase) << 56) | (static_cast<OpId>(role.part) << 48) |
         (static_cast<OpId>(role.action) << 40) | (static_cast<OpId>(env.layer & 0xffff) << 24) |
         (static_cast<OpId>(env.tile & 0xf) << 20) | static_cast<OpId>(env.micro & 0xfffff);
}
// Of an instance of a node: the layer is that of the model.
constexpr OpId op_id(const Program& program, const Node& node, Env env) {
  env.layer = env.layer * program.unit_layers + node.member;
  return op_id(node.role, env);
}
constexpr Role role_of(OpId id) {
  return {static_cast<Phase>(id >> 56), static_cast<Part>((id >> 48) & 0xff),
          static_cast<Action>((id >> 40) & 0xff)};
}
// The kind of operation that the lowering puts on this lane under this action.
OpKind kind_of(Action action, Lane lane);
std::string op_name(OpId id);  // "forward.qkv.compute[m0,l3]", "..[m0,l3,t2]" of tile 2

}  // namespace zplan
