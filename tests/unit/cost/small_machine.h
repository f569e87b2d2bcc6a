// A cluster with round numbers, so that expected times can be written down.
//   GPU    memory 1 TB/s (a byte takes a picosecond), 1 TFLOP/s fp32 at gemm efficiency 0.5 and
//          attention efficiency 0.25, no fixed times unless a test sets them
//   node   2 sockets x 1 PCIe switch x 2 GPUs; peer link 100 GB/s, PCIe and uplink 10 GB/s,
//          NIC 5 GB/s (one per switch), DRAM 50 GB/s per socket, host memory 80 GB/s in all
//   CPU    8 cores of 1 GFLOP/s; 2 drives of 1 GB/s
#pragma once

#include "hwprofiles/hw_profile.h"

namespace zplan {

inline Cluster small_machine(int nodes = 1) {
  constexpr double kGiga = 1e9;
  HwProfile node;
  node.name = "small";
  node.devices_per_node = 4;
  node.device.name = "gpu";
  node.device.peaks = {{"fp32", {1000 * kGiga}}};
  node.device.memory_bandwidth = {1000 * kGiga};
  node.device.gemm_efficiency = 0.5;
  node.device.attention_efficiency = 0.25;
  node.device.memory_efficiency = 1;
  node.device.launch_queue_depth = 1000;
  node.host.memory_bandwidth = {80 * kGiga};
  node.host.cpu_memory_efficiency = 1;
  node.host.cpu_cores = 8;
  node.host.core_flops = {1 * kGiga};
  node.nvme.drives = 2;
  node.topology.sockets = 2;
  node.topology.gpus_per_switch = 2;
  node.topology.nics_per_switch = 1;
  node.topology.nvme_drives = 2;
  node.topology.gpu_peer = LinkClass{{100 * kGiga}, 1};
  node.topology.gpu_pcie = node.topology.pcie_uplink = {{10 * kGiga}, 1};
  node.topology.dram = {{50 * kGiga}, 1};
  node.topology.socket_peer = {{20 * kGiga}, 1};
  node.topology.nic_pcie = {{10 * kGiga}, 1};
  node.topology.nic = {{5 * kGiga}, 1};
  node.topology.nvme_read = node.topology.nvme_write = {{1 * kGiga}, 1};
  return {"small", node, nodes, {}};
}

}  // namespace zplan
