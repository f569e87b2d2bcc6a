// Reads "zplan.cluster/1": a cluster that is more than NAMExCOUNT.
//
//   name              of the cluster
//   node              a built-in kind, or a path, from the folder of the file, or the node itself
//   nodes             how many
//   network           optional {"kind": "full_bisection"}, which it is anyway, or
//                     {"kind": "leaf_spine", "nodes_per_leaf", "oversubscription" (sourced),
//                      "rails", "allocation": "in_order" (default) | "scattered"}: network.h
//   fast_link_domain  optional, sourced: devices that share the peer link. More than a node has:
//                     whole nodes of a rack; fewer: neighbours in the node, bridged pairs for one
#pragma once

#include <string>
#include <vector>

#include "hwprofiles/hw_profile.h"
#include "planner/core/json_reader.h"

namespace zplan {

// Whether the document says that it is one.
bool is_cluster_file(const JsonNode& root);

// `text`: of the document, for the hash; `folder`: where paths start.
Cluster read_cluster_file(const JsonNode& root, const std::string& text, const std::string& folder);

// The built-in ones, by name.
std::vector<Cluster> cluster_catalogue();

}  // namespace zplan
