// What the system says this process holds in memory right now.
#pragma once

#include <cstdint>

#include "planner/core/units.h"

namespace zplan::exec {

struct ProcessMemory {
  Bytes resident{0};      // in memory, slabs and libraries included
  Bytes locked{0};        // of it, kept from being swapped out
  std::int64_t maps = 0;  // areas of the address space
};

// All zero where /proc does not say.
ProcessMemory process_memory();

}  // namespace zplan::exec
