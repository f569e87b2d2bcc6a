// How many ranks of each pipeline stage share a node: what the memory of a host must hold.
// Ranks fill nodes in order (hwprofiles/seating.h).
#pragma once

#include <cstdint>
#include <vector>

#include "hwprofiles/hw_profile.h"
#include "planner/program/job/job.h"

namespace zplan {

struct StageRanks {
  std::int32_t stage = 0;
  std::int64_t ranks = 0;
  friend auto operator<=>(const StageRanks&, const StageRanks&) = default;
};
using NodeFill = std::vector<StageRanks>;  // the stages that are there, in order

// Every way a node is filled once; not every node.
std::vector<NodeFill> node_fills(const Mesh& mesh, const Cluster& cluster);

}  // namespace zplan
