// Says whether a Job may be run: every finding is one line that names the rank class (stage), the
// operation and, where there is one, the buffer. No findings: sound. A Job that lower and place
// made and that has findings is our own bug.
//
// The checks, each in its file; the later ones need what the earlier ones promise:
//   structure.h      tree, buffers, views, edges, operation ids, homes
//   operands.h       kernels, copies, collectives, sends and receives: operands and lanes
//   hazards.h        order of all accesses to the same bytes, within one class
//   communication.h  sends meet receives, groups agree on their collectives
//   progress.h       nobody waits in a circle, over all classes: lane order, launch order,
//                    edges and communication together
//
// Works on placed and unplaced Jobs (unplaced: every buffer has addresses of its own). Knows
// nothing of how edges and offsets were made. Does not check numbers that kernels compute.
#pragma once

#include <string>
#include <vector>

#include "planner/program/job/job.h"

namespace zplan {

std::vector<std::string> verify(const Job& job);

// Throws Error(kInternal) with the first findings.
void verify_or_throw(const Job& job);

}  // namespace zplan
