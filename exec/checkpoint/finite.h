// Whether parameters are numbers: a checkpoint of any that are not is no place to go on from.
#pragma once

#include <cstddef>
#include <span>

#include "planner/program/job/ops.h"

namespace zplan::exec {

// None of these elements is infinite or no number. Integers always are. `bytes` is aligned to one.
bool all_finite(DType dtype, std::span<const std::byte> bytes);

}  // namespace zplan::exec
