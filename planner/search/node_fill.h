// How many ranks of each pipeline stage share a node: what the memory of a host must hold.
// Ranks fill nodes in order (Cluster::node_of).
#pragma once

#include <cstdint>
#include <vector>

#include "hwprofiles/hw_profile.h"
#include "planner/program/job.h"

namespace zplan {

using NodeFill = std::vector<std::int64_t>;  // ranks by stage

// Every way a node is filled at least once; not every node.
std::vector<NodeFill> node_fills(std::int32_t dp, std::int32_t pp, RankOrder order,
                                 const Cluster& cluster);

}  // namespace zplan
