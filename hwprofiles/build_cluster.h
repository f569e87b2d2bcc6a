// A Cluster for any device of the hardware catalogue, by stated rules:
//   node       that of the system's own profile where it has one (dgx2, dgx-a100, dgx-h100,
//              rtx4090-12ssd); else that of the device's relative with the device's data sheet put
//              in, and of the system its processors, memory, drives and network
//   device     peaks, memory, bandwidth, links and SMs by data sheet; efficiencies, latencies and
//              reserves are those of the relative's device [assumed]
//   size       fewer devices than the system has use the first ones: whole PCIe switches of one
//              socket, then both. The host stays whole: memory, drives, cores, and its memory rate.
//              Without a system the node has as many devices as are used [assumed]
//   scale-up   where the peer link reaches beyond the node (racks), the nodes of the job form
//   domains
//              of at most a rack, as large as each other; without a system this holds of a device
//              that is in racks only
//   network    as stated for the run, else the system's, else the usual one of the device, per
//              device and direction; ports are shared where a node has fewer than devices
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "hwprofiles/hardware_catalogue.h"
#include "hwprofiles/hw_profile.h"

namespace zplan {

struct HardwareRequest {
  std::string device{};                       // id
  std::string system{};                       // id; empty: unknown
  int gpus_per_node = 1, nodes = 1;           // used
  std::optional<BytesPerSecond> scale_out{};  // per device and direction
};

struct BuiltCluster {
  Cluster cluster;
  std::vector<std::string> assumed;  // what the rules had to assume, in words
};

// `profiles`: node_catalogue(). Throws Error naming the nearest id of an unknown device or system.
BuiltCluster build_cluster(const HardwareCatalogue& catalogue,
                           const std::vector<HwProfile>& profiles, const HardwareRequest& request);

// The node with other than its devices, by the rule of size; at most kMaxParts.
void resize_node(HwProfile& node, int devices);

}  // namespace zplan
