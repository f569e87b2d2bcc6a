#include "planner/cli/bandwidth/sweep.h"

#include <algorithm>
#include <cmath>
#include <memory>

#include "planner/search/worker_pool.h"

namespace zplan {
namespace {

void scale(LinkClass& link, double factor) { link.capacity = link.capacity * factor; }

CollectiveCurve faster(const CollectiveCurve& curve, double factor) {
  const Seconds start = curve.at(curve.least());
  CollectiveCurve result;
  for (double bytes = curve.least(); bytes < curve.most(); bytes *= std::sqrt(2.0))
    result.add(bytes, start + (curve.at(bytes) - start) / factor);
  result.add(curve.most(), start + (curve.at(curve.most()) - start) / factor);
  result.settle();
  return result;
}

void scale_peers(HwProfile& node, double factor) {
  if (node.topology.gpu_peer) scale(*node.topology.gpu_peer, factor);
  if (!node.device.collectives) return;
  auto profile = std::make_shared<CollectiveProfile>(*node.device.collectives);
  CollectiveConstants& constants = profile->constants;
  constants.link = constants.link * factor;
  constants.nvls = constants.nvls * factor;
  for (BytesPerSecond& rate : constants.rates) rate = rate * factor;
  for (auto& [group, curve] : profile->curves)
    if (group.nodes == 1) curve = faster(curve, factor);
  node.device.collectives = std::move(profile);
}

// Where collectives over nodes are measured, their rates follow the stack's share of the network.
void scale_network(Cluster& cluster, double factor) {
  const CollectiveProfile* measured = cluster.node.device.collectives.get();
  if (measured != nullptr && measured->reaches_over_nodes()) {
    cluster.stack.network *= factor;
    return;
  }
  scale(cluster.node.topology.nic, factor);
  scale(cluster.node.topology.nic_pcie, factor);
}

SweepPoint point_of(const sim::SimResult& sim, Hop hop) {
  return {sim.period, exposed_of(sim.split, hop)};
}

}  // namespace

std::string_view name(LinkGroup group) {
  constexpr std::string_view kNames[] = {"GPU peer links", "network", "PCIe",
                                         "host memory",    "sockets", "drives"};
  return kNames[static_cast<std::size_t>(group)];
}

std::optional<LinkGroup> group_of(std::string_view kind) {
  if (kind == kPeerLink) return LinkGroup::kPeers;
  if (kind == "NIC" || kind == "PCIe of NIC" || kind == "leaf uplink") return LinkGroup::kNetwork;
  if (kind == "PCIe" || kind == "PCIe uplink") return LinkGroup::kPcie;
  if (kind == "DRAM" || kind == "host memory") return LinkGroup::kHostMemory;
  if (kind == "socket link") return LinkGroup::kSockets;
  if (kind.starts_with("NVMe")) return LinkGroup::kDrives;
  return std::nullopt;
}

Cluster with_rate(Cluster cluster, LinkGroup group, double factor) {
  HwProfile& node = cluster.node;
  switch (group) {
    case LinkGroup::kPeers:
      scale_peers(node, factor);
      break;
    case LinkGroup::kNetwork:
      scale_network(cluster, factor);
      break;
    case LinkGroup::kPcie:
      scale(node.topology.gpu_pcie, factor);
      scale(node.topology.pcie_uplink, factor);
      break;
    case LinkGroup::kHostMemory:
      scale(node.topology.dram, factor);
      node.host.memory_bandwidth = node.host.memory_bandwidth * factor;
      break;
    case LinkGroup::kSockets:
      scale(node.topology.socket_peer, factor);
      break;
    case LinkGroup::kDrives:
      scale(node.topology.nvme_read, factor);
      scale(node.topology.nvme_write, factor);
      node.nvme.drive_read = node.nvme.drive_read * factor;
      node.nvme.drive_write = node.nvme.drive_write * factor;
      break;
  }
  return cluster;
}

Seconds exposed_of(const sim::TimeSplit& split, Hop hop) {
  const auto part = [&](sim::TimePart which) {
    return split.parts[static_cast<std::size_t>(which)];
  };
  switch (hop) {
    case Hop::kGpus:
      return part(sim::TimePart::kGatherReduce);
    case Hop::kGpuCpu:
      return part(sim::TimePart::kCopies);
    case Hop::kCpuNvme:
      return part(sim::TimePart::kIoRead) + part(sim::TimePart::kIoWrite);
    case Hop::kCpuMemory:
      return part(sim::TimePart::kCpu);
  }
  return {};
}

std::vector<Sweep> sweep_links(const Job& job, const Cluster& cluster,
                               const std::vector<TierTraffic>& traffic, const sim::SimResult& as_is,
                               int threads) {
  std::vector<Sweep> sweeps;
  for (int h = 0; h < kHopCount; ++h) {
    const TierTraffic* const most = longest(traffic, static_cast<Hop>(h));
    if (most == nullptr) continue;
    if (const auto group = group_of(most->link.kind))
      sweeps.push_back({most->hop, *group, most->link.kind, {}});
  }
  constexpr std::size_t kPoints = kSweepFactors.size();
  WorkerPool pool(threads);
  pool.for_each(sweeps.size() * kPoints, [&](std::size_t i) {
    Sweep& sweep = sweeps[i / kPoints];
    const std::size_t p = i % kPoints;
    if (p == kSweepAsIs) {
      sweep.points[p] = point_of(as_is, sweep.hop);
      return;
    }
    const Cluster changed = with_rate(cluster, sweep.group, kSweepFactors[p]);
    sweep.points[p] = point_of(sim::simulate(job, changed), sweep.hop);
  });
  return sweeps;
}

}  // namespace zplan
