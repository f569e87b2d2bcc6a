// Whether parameters are numbers: a checkpoint of any that are not is no place to go on from, and
// no program can use such weights.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>

#include "exec/checkpoint/format.h"
#include "planner/program/job/ops.h"

namespace zplan::exec {

// None of these elements is infinite or no number. Integers always are. `bytes` is aligned to one.
bool all_finite(DType dtype, std::span<const std::byte> bytes);

// "lm_head.weight has values that are not finite" of the piece's elements; nothing: they all are.
std::optional<std::string> not_finite(const SavedPiece& piece, std::span<const std::byte> bytes);

}  // namespace zplan::exec
