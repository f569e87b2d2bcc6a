// Does every operation have the operands its kind demands.
//   kernel      number and access of operands as kernels/rows.h says, shapes as its check
//               says, attributes present; a written operand overlaps no other one
//   copy        read, write; as many bytes of the same type; a lane between the two tiers
//   collective  read, write; sizes by kind and group; in place only where the shard belongs
//   send, recv  one operand; the peer is the neighbour the lane leads to
//   mark        none
// Lanes: GPU memory is touched by GPU lanes, host memory by the CPU lane and the copy lanes.
#pragma once

#include <string_view>

#include "planner/program/job/job.h"
#include "planner/program/verify/findings.h"

namespace zplan {

void check_operands(const Job& job, const RankClass& rank_class, ClassFindings& findings);

}  // namespace zplan
