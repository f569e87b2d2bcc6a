// Reads "zplan.cluster/1" and "zplan.cluster/2": a cluster that is more than NAMExCOUNT.
//
//   name              of the cluster
//   node              a built-in kind, or a path, from the folder of the file, or the node itself
//   nodes             how many
//   network           optional: network_file.h
//   fast_link_domain  optional, sourced: devices that share the peer link. More than a node has:
//                     whole nodes of a rack; fewer: neighbours in the node, bridged pairs for one
// The second form also takes
//   groups            in place of node and nodes: [{"node", "nodes"}, ..] of kinds that differ.
//   Such
//                     a cluster can be looked at; no plan can be made for it
//   transport         optional: {"efficiency", "latency"}, both sourced and optional, of the nodes'
//                     ports on this network, as where the same cards run RoCE or EFA
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "hwprofiles/hw_profile.h"
#include "planner/core/embedded_file.h"
#include "planner/core/json_reader.h"

namespace zplan {

// Whether the document says that it is one.
bool is_cluster_file(const JsonNode& root);

// `text`: of the document, for the hash; `folder`: where paths start.
Cluster read_cluster_file(const JsonNode& root, const std::string& text, const std::string& folder);

// The built-in one of a name, in any case; nothing: there is none. Its file has the same name.
const EmbeddedFile* find_cluster_file(std::string_view name);
std::vector<std::string> cluster_names();
Cluster read_embedded_cluster(const EmbeddedFile& file);
// All of them, by name.
std::vector<Cluster> cluster_catalogue();

}  // namespace zplan
