// A link that transfers load, as reports name it.
#pragma once

#include <compare>
#include <cstddef>
#include <string>
#include <string_view>

#include "hwprofiles/hw_profile.h"
#include "planner/core/units.h"
#include "planner/cost/node_wires.h"

namespace zplan {

inline constexpr std::string_view kPeerLink = "GPU peer link";  // CostLink::kind

struct CostLink {
  std::string name;  // "pcie0>socket0", with "node3 " before it in a cluster of several nodes;
                     // "leaf2 rail5 up", "router[3,1]>router[3,2]"
  std::string kind;  // "PCIe uplink", "NIC", "host memory", "leaf uplink" ..
  BytesPerSecond capacity{};
};

// A wire of a node (node_wires.h); with kNetwork in place of the node a link of the network
// (fabric.h).
struct WireId {
  int node = 0;
  std::size_t wire = 0;
  friend constexpr auto operator<=>(const WireId&, const WireId&) = default;
};
inline constexpr int kNetwork = -1;

CostLink describe(const Cluster& cluster, const NodeWires& wires, const WireId& id);

}  // namespace zplan
