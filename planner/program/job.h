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
struct Tensor {
  std::string name;  // Hugging Face name
  Shape shape;       // [in, out] for matrices, [V, h] for the token embedding
  Init init = Init::kZero;
  double init_std = 0;
  bool decay = false;       // weight decay applies
  std::int64_t offset = 0;  // first element within its flat unit
};

// Parameters that are gathered, reduced and updated together, flattened: matrices first (they
// decay), then vectors. Sharded units are cut into dp equal pieces of shard_elements.
struct Unit {
  std::string name;                 // "embedding", "layer", "layer.qkv" ..
  bool per_layer = false;           // one instance per layer
  std::int64_t elements = 0;        // unpadded, per instance
  std::int64_t decay_elements = 0;  // the first so many elements of the flat unit decay
  std::int64_t shard_elements = 0;  // padded; shard_elements * dp >= elements
  std::int64_t flat_elements = 0;   // padded flat size, = shard_elements * dp
  std::vector<Tensor> tensors;
};

// Where a class keeps the states of a unit. `sharded`: element i of the buffer is flat element
// dp_index * shard_elements + i; else the buffer holds the flat unit. Slot = layer - first_layer.
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

// All ranks of one pipeline stage: their programs differ only in the dp index.
struct RankClass {
  std::int32_t stage = 0;
  std::int32_t first_layer = 0;
  std::int32_t layers = 0;
  Program program;
  std::vector<UnitHome> homes;
  Placement placement;  // empty until placed
};

// Which coordinate varies fastest over the ranks.
enum class RankOrder : std::uint8_t { kDataFirst, kPipelineFirst };

struct Job {
  std::string kernel_set;  // "cpu.f32"
  std::string model;       // name, for reports only
  std::int32_t dp = 1;
  std::int32_t pp = 1;
  RankOrder order = RankOrder::kDataFirst;
  std::int64_t global_batch = 1;  // sequences per step
  std::int64_t micro_batch = 1;   // sequences per replica and micro-step
  std::int64_t micro_steps = 1;
  std::int64_t sequence = 1;
  std::vector<Unit> units;
  std::vector<RankClass> classes;  // one per stage
  bool placed = false;

  std::int32_t world() const { return dp * pp; }
  // Ranks that take part in a group. With one stage the embedding group is each rank alone.
  std::int32_t group_size(GroupKind group) const {
    if (group == GroupKind::kEmbedding) return pp > 1 ? 2 : 1;
    return group == GroupKind::kData ? dp : world();
  }
  // First and last stage hold the two copies of a tied embedding.
  bool in_group(std::int32_t stage, GroupKind group) const {
    return group != GroupKind::kEmbedding || stage == 0 || stage == pp - 1;
  }
  std::int32_t rank_of(std::int32_t dp_index, std::int32_t stage) const {
    return order == RankOrder::kDataFirst ? stage * dp + dp_index : dp_index * pp + stage;
  }
  std::int32_t stage_of(std::int32_t rank) const {
    return order == RankOrder::kDataFirst ? rank / dp : rank % pp;
  }
  std::int32_t dp_index_of(std::int32_t rank) const {
    return order == RankOrder::kDataFirst ? rank % dp : rank / pp;
  }
};

// Operation id: the same in every Timeline of a Job. Arithmetic over the role and the loop
// variables, hence stable under plan changes that do not touch the operation.
using OpId = std::uint64_t;
constexpr OpId op_id(Role role, const Env& env) {
  return (static_cast<OpId>(role.phase) << 56) | (static_cast<OpId>(role.part) << 48) |
         (static_cast<OpId>(role.action) << 40) | (static_cast<OpId>(env.layer & 0xffff) << 24) |
         static_cast<OpId>(env.micro & 0xffffff);
}
std::string op_name(OpId id);  // "forward.qkv.compute[m0,l3]"

}  // namespace zplan
