// Memory of a GPU as a stack's software takes it: what the Job says and what the stack holds
// besides (hwprofiles/stack_memory.h), as a caching allocator would hold it, and beside the
// allocator the context and the communicators.
//
// `central` is what is expected, `bound` what 19 runs of 20 are expected to stay below: central +
// 1.645 standard deviations. [derived] These add up, as squares, from the uncertainty of each
// quantity times its bytes at the peak and from the stack's residual error of the whole: that
// errors are normal and independent is assumed.
// What a run of the user's own has shown (MeasuredMemory) is added to what it was read of and to
// what holds that: in use, reserved, the whole device.
// Of a stack that states nothing the allocator's bytes are the slab: one slab does not fragment,
// and only the reserve is uncertain.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "hwprofiles/hw_profile.h"
#include "planner/place/allocator_replay.h"
#include "planner/program/job/job.h"
#include "planner/search/search.h"

namespace zplan {

// Returns what a measured run adds to the reserve of a GPU. Software that states what it holds is
// checked by that (check_stack), not by its slab: there the reserve only shrinks.
Bytes measured_reserve(const StackMemory& memory);
// By how much the reserve may be larger than stated, in 19 cases of 20.
Bytes reserve_margin(const DeviceProfile& device);

struct MemoryEstimate {
  Bytes central{0}, bound{0};
};

struct StackMemoryUse {
  std::int32_t stage = 0;                // whose GPU
  std::optional<ReplayedMemory> replay;  // nothing: too long
  std::int32_t communicators = 0;        // of more than one rank
  Bytes context{0}, communicator_bytes{0};
  MemoryEstimate allocated;  // most bytes in use at a time
  MemoryEstimate reserved;   // the segments
  MemoryEstimate device;     // in use or cut up, and beside the allocator: what must be there
  MemoryEstimate shown;      // reserved, and beside it: as nvidia-smi shows
};

// Of one stage's GPU.
StackMemoryUse stack_memory_use(const Job& job, std::size_t rank_class, const Cluster& cluster);
// Looks at the stage with the largest slab and at the last one, which works out the loss, and gives
// the one whose bound of `device` is greater.
StackMemoryUse stack_memory_use(const Job& job, const Cluster& cluster);

// Why a GPU does not hold what the stack takes: it must have room for the bound, and for what is
// expected beside the headroom. Nothing where it has, or where the stack does not say what it
// takes.
std::optional<Infeasible> check_stack(const StackMemoryUse& use, const Cluster& cluster);

}  // namespace zplan
