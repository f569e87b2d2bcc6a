// A cluster on which only the kernels of the devices take time: launches, fixed times, links and
// the host cost next to nothing, and everything fits. A bound that is too great has nowhere to
// hide.
#pragma once

#include "hwprofiles/hw_profile.h"

namespace zplan {

inline Cluster kernels_alone(Cluster cluster) {
  constexpr BytesPerSecond kFast{1e16};
  HwProfile& node = cluster.node;
  node.device.gemm_overhead = node.device.launch_overhead = node.device.copy_latency = {0};
  node.latency = {};
  for (LinkClass* link : {&node.topology.gpu_pcie, &node.topology.pcie_uplink, &node.topology.dram,
                          &node.topology.socket_peer, &node.topology.nic_pcie, &node.topology.nic})
    *link = {kFast, 1.0};
  node.topology.gpu_peer = LinkClass{kFast, 1.0};
  node.host.memory_bandwidth = kFast;
  node.host.core_flops = {1e18};
  node.device.memory = node.host.memory = Bytes{std::int64_t{1} << 50};
  return cluster;
}

}  // namespace zplan
