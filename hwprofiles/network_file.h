// Reads the "network" of a cluster file.
//
//   {"kind": "full_bisection"}, which it is anyway
//   {"kind": "leaf_spine", "nodes_per_leaf", "oversubscription" (sourced), "rails",
//    "allocation": "in_order" (default) | "scattered"}
//   of zplan.cluster/2 also
//   {"kind": "graph",
//    "spreading"  "ecmp" (default) or "adaptive": how flows share ways of the same length
//    "switches"   sets by name, with their sizes: {"leaf": [8, 4], "spine": [16], "core": []}
//    "links"      [{"from", "to": ends, as "node[n].port[p]", "leaf[n / 8, p]" or "core"; names in
//                   them go through all indices of the places that they stand at alone
//                   "where"  optional: only where this holds, "a < b and a != 0"
//                   "rate" (sourced) of one cable each way, "efficiency" (sourced, 1), "cables"
//                   (1). A node's port has one cable, and as much as the node says it sends unless
//                   a lower rate stands here}]
//    "weak"       optional: [{"from", "to", "where": as of links, "share" (sourced): of the rate, 0
//                   where the link is broken}]}
#pragma once

#include <vector>

#include "hwprofiles/hw_profile.h"
#include "hwprofiles/network.h"
#include "planner/core/json_reader.h"

namespace zplan {

// `cluster`: with its nodes. Throws Error also where the rules make no network (fabric.h).
NetworkSpec read_network(const JsonNode& node, Cluster cluster, bool may_be_graph,
                         std::vector<ValueSource>& sources);

}  // namespace zplan
