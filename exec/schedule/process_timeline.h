// The timelines of the processes of a job as one. Each counts from its own start; how far the
// starts lie apart is seen in exchanges, which all processes leave when the last one has come: to
// within the time that a message takes, tens of microseconds on one host.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "exec/comm/barrier.h"
#include "exec/comm/rendezvous.h"
#include "planner/program/timeline/timeline.h"

namespace zplan::exec {

// How much later than the first process the other one started, of the times since their starts at
// which both left the same exchanges: the median, as some messages are late.
SimTime start_offset(std::span<const SimTime> first, std::span<const SimTime> other);

// The ranks of all, in order. parts[i] started offsets[i] after parts[0], or before when negative;
// the earliest start is that of the result.
Timeline join_timelines(std::vector<Timeline> parts, std::span<const SimTime> offsets);

// Called by all processes with what they recorded since `start`. The process of rank `root` gets
// the timeline of all, the others an empty one.
Timeline gather_timeline(Rendezvous& rendezvous, int root, const Timeline& own, TimePoint start);

}  // namespace zplan::exec
