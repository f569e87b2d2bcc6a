#include "planner/cost/cost_link.h"

#include <fmt/format.h>

#include <cstdint>

namespace zplan {
namespace {

std::string kind_of(const Topology& topology, const Link& link) {
  const VertexKind from = topology.vertex(link.from).kind, to = topology.vertex(link.to).kind;
  const auto has = [&](VertexKind kind) { return from == kind || to == kind; };
  if (has(VertexKind::kFabric)) return "NIC";
  if (has(VertexKind::kNic)) return "PCIe of NIC";
  if (has(VertexKind::kNvSwitch)) return std::string(kPeerLink);
  if (has(VertexKind::kGpu)) return "PCIe";
  if (has(VertexKind::kPcieSwitch)) return "PCIe uplink";
  if (has(VertexKind::kDram)) return "DRAM";
  if (has(VertexKind::kNvme)) return "NVMe";
  return "socket link";
}

}  // namespace

CostLink describe(const Cluster& cluster, const NodeWires& wires, const WireId& id) {
  if (id.node == kNetwork) {
    const Fabric& fabric = wires.network()->fabric;
    const LinkId at{static_cast<std::int32_t>(id.wire)};
    const Link& link = fabric.graph().link(at);
    return {link.name, std::string(fabric.kind(at)), link.effective()};
  }
  const Topology& topology = wires.topology();
  const std::string prefix = cluster.nodes > 1 ? fmt::format("node{} ", id.node) : "";
  if (id.wire == wires.host_memory()) {
    return {prefix + "dram", "host memory", cluster.node.host.memory_bandwidth};
  }
  if (id.wire > wires.host_memory()) {
    constexpr double kWork = 1e12;  // ps of work per second and core
    const bool all = id.wire == wires.cores();
    return {prefix + (all ? "cores" : "caches and clocks"),
            all ? "cores" : "shared by cores",
            {all ? kWork * cluster.node.cores->cores : kWork}};
  }
  if (id.wire >= wires.links()) {
    const VertexId drive = topology.nvme_drives()[id.wire - wires.links()];
    return {prefix + topology.vertex(drive).name, "NVMe drive",
            cluster.node.topology.nvme_read.effective()};
  }
  const Link& link = topology.links()[id.wire];
  return {prefix + link.name, kind_of(topology, link), link.effective()};
}

}  // namespace zplan
