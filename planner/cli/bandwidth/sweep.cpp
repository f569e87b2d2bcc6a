#include "planner/cli/bandwidth/sweep.h"

#include <utility>

#include "hwprofiles/quantities.h"
#include "planner/search/worker_pool.h"

namespace zplan {
namespace {

// That of the table (hwprofiles/quantities.h) which is the rate of all links of the group.
std::string_view quantity_of(LinkGroup group) {
  constexpr std::string_view kQuantities[] = {"peer",          "network", "pcie",
                                              "cpu.bandwidth", "socket",  "nvme"};
  return kQuantities[static_cast<std::size_t>(group)];
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
  const HardwareQuantity& quantity = find_quantity(quantity_of(group));
  if (!quantity.get(cluster)) return cluster;
  const QuantityChange change{&quantity, factor, true};
  return with_changes(std::move(cluster), {&change, 1});
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
