// Is every pair of accesses to the same bytes, one of them a write, in a fixed order; and does
// every read find what its own buffer was given. One rank class, communication with others not
// counted as order (communication.h, progress.h).
//
// Method: instances in program order, each with a vector clock: how many instances of every lane
// are known to be done before it starts. Known from the predecessor on its lane, from its edges,
// and from what those knew. Per piece of memory: the last write and the reads since. A read must
// know the last write; a write must know it, too, and those reads. By transitivity this orders all
// pairs, of one buffer and of buffers that placement laid on the same bytes (law 4).
//
// A read finds bytes when they were written since the last scratch use and by its own buffer.
// Model states count as written before the first step: the homes of parameters, master copy and
// moments; so does what steps hand on (carried.h); nothing else does. An edge must lead to an
// earlier instance.
//
// [derived] Two steps are enough: slots do not depend on the step, so what holds between steps 0
// and 1 holds between any two neighbours, and an access two steps back is done before its like one
// step back, on the same lane. Micro-batch loops are shortened (shorten.h). Ranks of a class
// differ in which bytes they touch; the pieces of all of them are walked at once, since pieces know
// nothing of each other (addresses.h).
#pragma once

#include "planner/program/job/job.h"
#include "planner/program/verify/findings.h"

namespace zplan {

// The class must have passed check_structure.
void check_hazards(const Job& job, const RankClass& rank_class, ClassFindings& findings);

}  // namespace zplan
