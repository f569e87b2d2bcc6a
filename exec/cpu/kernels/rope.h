// Rotary positions: of the first r elements of a head, element i of the first half and element i of
// the second half turn by the angle position / stretch theta^(-2 i / r). [Su21], paired as in the
// checkpoints of Llama [Touvron23]. Angles in double. Left out: angles scaled by frequency.
#pragma once

#include <cstdint>

#include "exec/kernels/arguments.h"

namespace zplan::exec::cpu {

// In place; direction 1 forward, -1 backward, which turns back. 3 flop per element and the angles.
template <typename T>
void rope(const RopeShape& shape, T* x, double theta, int direction);

}  // namespace zplan::exec::cpu
