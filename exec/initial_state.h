// Initial model states: parameters drawn per tensor and element (planner/core/random.h), master
// copies equal to them, moments and padding zero. A rank draws only what it owns, and gets the same
// values under every sharding. float32 values are the float64 draws, rounded.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "exec/slab.h"
#include "planner/program/job.h"

namespace zplan::exec {

// Flat elements [first, first + values.size()) of one instance of a unit; zero outside tensors.
void draw_parameters(const Unit& unit, std::int64_t layer, std::uint64_t seed, std::int64_t first,
                     std::span<double> values);

// Fills the state buffers of all homes of the rank's class.
void initialise_states(const Job& job, std::uint64_t seed, RankMemory& memory);

// "{}" in the name of a tensor replaced by the layer.
std::string name_in_layer(const Tensor& tensor, std::int64_t layer);

}  // namespace zplan::exec
