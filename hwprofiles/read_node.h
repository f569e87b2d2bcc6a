// Nodes from completed files, for readers of documents that have a node in them.
#pragma once

#include "hwprofiles/hw_profile.h"
#include "hwprofiles/node_file.h"

namespace zplan {

HwProfile read_node(const NodeFile& file);

// So many of them, named "NAMExCOUNT", on a network without bottlenecks.
Cluster make_cluster(HwProfile node, int nodes);

}  // namespace zplan
