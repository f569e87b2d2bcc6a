// Initial model states: parameters drawn per tensor and element (planner/core/random.h), master
// copies equal to them, moments and padding zero. A rank draws only what it owns, and gets the same
// values under every sharding, tensor parallel split and tiling. float32 values are the float64
// draws, rounded; 16-bit values are those, rounded again.
// What a step takes over from the step before it, other than model states, is zero ahead of the
// first.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "exec/memory/slab.h"
#include "planner/program/job/job.h"

namespace zplan::exec {

// One instance of a unit as a rank has it.
struct UnitInstance {
  std::int64_t layer = 0;   // its first
  std::int64_t piece = 0;   // number of the piece
  std::int64_t pieces = 1;  // of how many
};

// Flat elements [first, first + values.size()) of an instance; zero outside tensors.
void draw_parameters(const Unit& unit, const UnitInstance& instance, std::uint64_t seed,
                     std::int64_t first, std::span<double> values);

// Fills the state buffers of all homes of the rank's class, and what a step carries over
// (carried.h).
void initialise_states(const Job& job, std::uint64_t seed, RankMemory& memory);

// The latter alone.
void clear_carried(RankMemory& memory);

// Everything initialise_states writes to.
std::vector<BufferId> initialised_buffers(const RankClass& rank_class);

// "{}" in the name of a tensor replaced by the layer, "{-n}" by the layer less n.
std::string name_in_layer(const Tensor& tensor, std::int64_t layer);

}  // namespace zplan::exec
