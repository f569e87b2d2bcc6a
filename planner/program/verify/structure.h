// Is the Program well formed: everything the other checks, the cursors and the backends take for
// granted before they look at a single instance.
//   tree      every node and block hangs in it once, nodes in program order, depth and counts
//   buffers   distinct names, aligned sizes; when placed: offsets aligned and within the slab,
//             no persistent buffer on bytes of another
//   views     inside their slot for every dp index, aligned to their element type
//   edges     name an iteration that exists: common block at their level, equal loops where
//             iterations correspond (whether it is an earlier one is checked by hazards.h)
//   ids       no two instances of a step have the same OpId
//   homes     model states are kept in persistent buffers with a slot for each layer
#pragma once

#include "planner/program/job/job.h"
#include "planner/program/verify/findings.h"

namespace zplan {

void check_structure(const Job& job, const RankClass& rank_class, ClassFindings& findings);

// The last of the above; needs a sound tree.
void check_op_ids(const Program& program, ClassFindings& findings);

}  // namespace zplan
