#include "hwprofiles/seating.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "planner/core/error.h"

namespace zplan {

Seating::Seating(const Cluster& cluster, std::vector<std::int32_t> taken)
    : taken_(std::move(taken)),
      nodes_(cluster.nodes),
      in_node_(cluster.node.devices_per_node),
      domain_(cluster.domain()),
      island_(cluster.island()) {
  for (const std::int32_t device : taken_)
    if (device < 0 || device >= in_node_)
      throw_bad_input(fmt::format("there is no GPU {} in a node of {}: expected 0 to {}", device,
                                  cluster.name, in_node_ - 1));
}

std::vector<std::int32_t> spread_devices(const TopologySpec& node, int count) {
  std::vector<std::int32_t> devices;
  for (int within = 0; within < node.gpus_per_switch; ++within)
    for (int at = 0; at < node.switches_per_socket; ++at)
      for (int socket = 0; socket < node.sockets; ++socket)
        devices.push_back((socket * node.switches_per_socket + at) * node.gpus_per_switch + within);
  devices.resize(std::min(devices.size(), static_cast<std::size_t>(count)));
  std::sort(devices.begin(), devices.end());
  return devices;
}

}  // namespace zplan
