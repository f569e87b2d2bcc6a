#include "planner/cost/leaf_loads.h"

#include <algorithm>

namespace zplan {

int rails_of(const Cluster& cluster) {
  return cluster.network.rails ? cluster.node.topology.nics() : 1;
}

BytesPerSecond uplink_capacity(const Cluster& cluster) {
  const TopologySpec& wires = cluster.node.topology;
  const double ports = static_cast<double>(wires.nics()) / rails_of(cluster);
  const NetworkSpec& network = cluster.network;
  return wires.nic.effective() * (ports * network.nodes_per_leaf / network.oversubscription);
}

LeafLoads::LeafLoads(const Cluster& cluster, const Seating& seating, const Topology& topology)
    : cluster_(cluster), seating_(seating), topology_(topology) {}

std::map<int, double> LeafLoads::shares(std::span<const int> ranks) const {
  std::map<int, double> shares;
  const int rails = rails_of(cluster_);
  for (const int rank : ranks) {
    const std::span<const VertexId> nics = topology_.nics_of(seating_.device_of(rank));
    const int leaf = cluster_.network.leaf_of(seating_.node_of(rank), cluster_.nodes);
    for (const VertexId nic : nics) {
      const int rail = cluster_.network.rails ? topology_.vertex(nic).ordinal : 0;
      shares[leaf * rails + rail] += 1.0 / static_cast<double>(ranks.size() * nics.size());
    }
  }
  return shares;
}

void LeafLoads::cross(std::span<const int> from, std::span<const int> to, double bytes) {
  if (!cluster_.network.has_leaves()) return;
  constexpr double kRounding = 1e-9;  // of sums of equal parts
  const std::map<int, double> out = shares(from), in = shares(to);
  const auto add = [bytes](std::map<int, double>& loads, const auto& own, const auto& other) {
    for (const auto& [leaf_switch, share] : own) {
      const auto back = other.find(leaf_switch);
      const double rest = share - (back == other.end() ? 0 : std::min(share, back->second));
      if (rest > kRounding) loads[leaf_switch] += rest * bytes;
    }
  };
  add(up_, out, in);
  add(down_, in, out);
}

std::optional<LeafLoads::Uplink> LeafLoads::busiest(bool up) const {
  const std::map<int, double>& loads = up ? up_ : down_;
  const auto lighter = [](const auto& a, const auto& b) { return a.second < b.second; };
  const auto most = std::max_element(loads.begin(), loads.end(), lighter);
  if (most == loads.end()) return std::nullopt;
  return Uplink{most->first, up, most->second};
}

}  // namespace zplan
