// Does every lane of every class get to its end: lane order, launch order, edges and matched
// communication, taken together over all classes, contain no circle. Replays two steps by counters:
// the head of a lane goes when it is launched and its edges are met; a send goes together with the
// receive it meets, a collective over several stages with the heads of all its members, each at the
// head of its own lane. One dp index stands for all: groups within a stage go on together. What
// stays stuck is reported with the operations at the heads.
//
// The host of a class launches the nodes of all lanes but kCpu in program order and stops before a
// node whose lane has one outstanding. A deeper queue only launches earlier: what gets to its end
// with depth 1 does so with any.
//
// [derived] Replaying in any order finds every circle: nothing that can go is ever held up by
// something else that goes. Micro-batch loops are cut to a common length that leaves, for each
// stage, as many iterations as edges reach back, plus two: a circle passes each stage at most once
// per iteration distance and so shows itself in the cut loops, too.
#pragma once

#include <string>
#include <vector>

#include "planner/program/job/job.h"

namespace zplan {

// Structure, operands and communication must be sound.
void check_progress(const Job& job, std::vector<std::string>& findings);

}  // namespace zplan
