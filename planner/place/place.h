// Decides where every buffer lies: one slab per rank class and tier, offsets in bytes, multiples
// of kBufferAlignment. Persistent buffers first, stacked; the others share what is left by
// lifetime (lifetime.h, pack.h). Then it orders the users of shared bytes by reuse edges.
// Reads nothing of the hardware; whether a slab fits is decided elsewhere.
#pragma once

#include "planner/place/lifetime.h"
#include "planner/program/job/job.h"

namespace zplan {

struct PlaceOptions {
  // A slab may be this much larger than its live peak where that lets a buffer reuse bytes that
  // have been free for longer (fewer waits).
  double slack = 0.05;
};

// The Job must have data edges and no placement yet.
void place(Job& job, const PlaceOptions& options = {});

// Offsets alone, of a Job with or without edges, for the first time or anew: enough to tell whether
// it fits, not to run it. `lives`: lifetimes(job).
void assign_offsets(Job& job, const JobLifetimes& lives, double slack);

}  // namespace zplan
