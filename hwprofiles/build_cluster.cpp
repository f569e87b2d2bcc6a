#include "hwprofiles/build_cluster.h"

#include <fmt/format.h>

#include <algorithm>

#include "hwprofiles/sourced_object.h"
#include "planner/core/error.h"
#include "planner/core/hash.h"

namespace zplan {
namespace {

const HwProfile& find_profile(const std::vector<HwProfile>& profiles, std::string_view name) {
  const auto found = std::find_if(profiles.begin(), profiles.end(),
                                  [&](const HwProfile& node) { return node.name == name; });
  ZPLAN_ASSERT(found != profiles.end());
  return *found;
}

void apply_device(HwProfile& node, const DeviceFacts& facts) {
  DeviceProfile& device = node.device;
  device.name = facts.name;
  device.memory = facts.memory;
  device.peaks = facts.peaks;
  device.memory_bandwidth = facts.memory_bandwidth;
  if (facts.gemm_efficiency) device.gemm_efficiency = *facts.gemm_efficiency;
  if (facts.sustained) device.sustained = *facts.sustained;
  device.kernel_tables = facts.kernel_tables;
  device.tables = facts.tables;
  device.collectives = facts.collectives;
  device.sm_count = facts.sm_count;
  TopologySpec& wires = node.topology;
  if (!facts.peer_link) {
    wires.gpu_peer.reset();
  } else {
    if (!wires.gpu_peer) wires.gpu_peer.emplace();
    wires.gpu_peer->capacity = *facts.peer_link;
  }
  // A link that the profile gives at its achieved rate stays: it was measured below the data sheet.
  const auto widen = [&](LinkClass& link) {
    if (link.efficiency < 1) link.capacity = facts.host_link;
  };
  widen(wires.gpu_pcie);
  widen(wires.pcie_uplink);
  node.sources.insert(node.sources.end(), facts.sources.begin(), facts.sources.end());
}

void apply_system(HwProfile& node, const SystemFacts& system) {
  if (system.host_memory) node.host.memory = *system.host_memory;
  if (node.host.reserve >= node.host.memory) node.host.reserve = node.host.memory / 16;
  if (system.cpu_cores) node.host.cpu_cores = *system.cpu_cores;
  if (system.drives && node.nvme.drives > 0) {
    node.nvme.capacity = node.nvme.capacity / node.nvme.drives * *system.drives;
    node.nvme.drives = node.topology.nvme_drives = *system.drives;
  }
  TopologySpec& wires = node.topology;
  const int switches = wires.sockets * wires.switches_per_socket;
  wires.gpus_per_switch = std::max(1, system.devices_per_node / switches);
  wires.nics_per_switch = system.nics == 0 ? 0 : std::max(1, system.nics / switches);
  node.latency.transport = system.transport;
  wires.ring_out = system.ring_out;
  node.sources.insert(node.sources.end(), system.sources.begin(), system.sources.end());
}

// How the first `devices` lie in the node: devices of a switch, switches of a socket, sockets.
void resize(TopologySpec& wires, int devices) {
  const int sockets = wires.sockets;
  const auto settle = [&](int per_switch, int switches, int of_sockets) {
    wires.gpus_per_switch = per_switch;
    wires.switches_per_socket = switches / of_sockets;
    wires.sockets = of_sockets;
    // The processors' memory stays whole, so what is left of the sockets has all of its rate.
    wires.dram.capacity = wires.dram.capacity * (static_cast<double>(sockets) / of_sockets);
  };
  if (devices == wires.gpus()) return;
  for (int each = std::min(wires.gpus_per_switch, devices); each >= 1; --each) {
    const int switches = devices / each;
    if (devices % each != 0) continue;
    if (switches <= wires.switches_per_socket) return settle(each, switches, 1);
    if (switches % sockets == 0) return settle(each, switches, sockets);
  }
  settle(1, devices, 1);
}

// Ports that a device does not share stand for all that it has; those of a node with fewer ports
// than devices are shared as its switches share them.
void set_network(TopologySpec& wires, const LinkClass& usual, BytesPerSecond per_device) {
  if (wires.nics_per_switch == 0) {
    wires.nics_per_switch = wires.gpus_per_switch;
    wires.nic.efficiency = wires.nic_pcie.efficiency = usual.efficiency;
  }
  wires.nics_per_switch = std::min(wires.nics_per_switch, wires.gpus_per_switch);
  wires.nic.capacity =
      per_device * (static_cast<double>(wires.gpus_per_switch) / wires.nics_per_switch);
  // [assumed] No port is slower for the slot that it sits in.
  const double needed = wires.nic.effective().value / wires.nic_pcie.efficiency;
  wires.nic_pcie.capacity.value = std::max(wires.nic_pcie.capacity.value, needed);
}

BytesPerSecond network_rate(const HardwareRequest& request, const DeviceFacts& device,
                            const SystemFacts* system, std::vector<std::string>& assumed) {
  constexpr double kGiga = 1e9;
  if (request.scale_out) return *request.scale_out;
  if (system != nullptr && system->nics > 0) return system->scale_out();
  assumed.push_back(
      fmt::format("network of {} GB/s per {}", device.scale_out.value / kGiga, device.name));
  return device.scale_out;
}

// The system's own profile, or one put together.
HwProfile node_of(const std::vector<HwProfile>& profiles, const DeviceFacts& device,
                  const SystemFacts* system) {
  if (system != nullptr && !system->profile.empty() && system->device == device.id)
    return find_profile(profiles, system->profile);
  HwProfile node = find_profile(profiles, device.relative);
  apply_device(node, device);
  if (system != nullptr) apply_system(node, *system);
  node.name = system != nullptr ? system->id : device.id;
  node.description = fmt::format("{}: by data sheet, the rest as {}",
                                 system != nullptr ? system->name : device.name, device.relative);
  node.aliases.clear();
  return node;
}

struct Size {
  int per_node = 1, nodes = 1;
  int domain = 0;  // devices that share the peer link, beyond the node; 0: those of the node
};

// The rack that the device is built for, where every system of the catalogue that has it is one.
const SystemFacts* usual_rack(const HardwareCatalogue& catalogue, const DeviceFacts& device) {
  const SystemFacts* rack = nullptr;
  for (const SystemFacts& system : catalogue.systems) {
    if (system.device != device.id) continue;
    if (!system.is_rack()) return nullptr;
    rack = &system;
  }
  return rack;
}

// A job takes any part of a rack, whole trays of it. One that needs several racks takes as much of
// each, from the fewest that share it evenly [assumed].
Size size_of(const HardwareRequest& request, const DeviceFacts& device, const SystemFacts* rack) {
  const Size as_used{.per_node = request.gpus_per_node, .nodes = request.nodes};
  if (rack == nullptr || !rack->is_rack() || !device.peer_link) return as_used;
  const bool known = request.system == rack->id;
  const int all = as_used.per_node * as_used.nodes;
  const int tray = known ? std::min(rack->devices_per_node, all) : as_used.per_node;
  if (all % tray != 0 || tray > rack->scale_up_domain) return as_used;
  const int trays = all / tray, most = rack->scale_up_domain / tray;
  int racks = (trays + most - 1) / most;
  while (trays % racks != 0) ++racks;
  return {.per_node = tray, .nodes = trays, .domain = all / racks};
}

}  // namespace

void resize_node(HwProfile& node, int devices) {
  resize(node.topology, devices);
  node.devices_per_node = devices;
}

BuiltCluster build_cluster(const HardwareCatalogue& catalogue,
                           const std::vector<HwProfile>& profiles, const HardwareRequest& request) {
  const DeviceFacts& device = catalogue.device(request.device);
  const SystemFacts* system = request.system.empty() ? nullptr : &catalogue.system(request.system);
  if (request.gpus_per_node > kMaxParts || request.nodes > kMaxNodes)
    throw_bad_input(fmt::format("{} nodes of {} devices: expected at most {} of {}", request.nodes,
                                request.gpus_per_node, kMaxNodes, kMaxParts));
  BuiltCluster built;
  HwProfile node = node_of(profiles, device, system);
  if (system != nullptr) node.device.sustained *= system->settled;
  const SystemFacts* rack = system != nullptr ? system : usual_rack(catalogue, device);
  const Size size = size_of(request, device, rack);
  if (system == nullptr && size.domain > 0)
    built.assumed.push_back(
        fmt::format("peer links among {} {}, as in a {}", size.domain, device.name, rack->name));
  if (system == nullptr)
    built.assumed.push_back(fmt::format("server of {} {} with the host of {}", size.per_node,
                                        device.name, device.relative));
  if (size.per_node != node.topology.gpus()) node.name += fmt::format("-{}", size.per_node);
  resize_node(node, size.per_node);
  if (device.peers != PeerKind::kSwitch)
    node.topology.peer_shape =
        peer_shape_of(device.peers, system != nullptr ? system->devices_per_node : size.per_node);
  if (size.nodes > 1)
    set_network(node.topology, find_profile(profiles, "dgx-a100").topology.nic,
                network_rate(request, device, system, built.assumed));
  node.hash = to_hex(fnv1a128(fmt::format("{} {} {} {} {}", node.hash, device.id, request.system,
                                          size.per_node, node.topology.nic.capacity.value)));
  built.cluster.name = size.nodes == 1 ? node.name : fmt::format("{}x{}", node.name, size.nodes);
  built.cluster.node = std::move(node);
  built.cluster.nodes = size.nodes;
  if (size.domain > size.per_node) built.cluster.fast_link_domain = size.domain;
  return built;
}

}  // namespace zplan
