// Which device of which node a rank has. Ranks fill nodes one after the other, and domains of fast
// links with them. Of each node they have the devices that `taken` names, in the order of the
// ranks there; where it names none, all of them in order.
#pragma once

#include <cstdint>
#include <vector>

#include "hwprofiles/hw_profile.h"

namespace zplan {

class Seating {
 public:
  // Throws Error where a node has no such device.
  explicit Seating(const Cluster& cluster, std::vector<std::int32_t> taken = {});

  int per_node() const { return taken_.empty() ? in_node_ : static_cast<int>(taken_.size()); }
  int devices() const { return nodes_ * per_node(); }  // that ranks may have
  int node_of(int rank) const { return rank / per_node(); }
  int device_of(int rank) const {
    const int place = rank % per_node();
    return taken_.empty() ? place : taken_[static_cast<std::size_t>(place)];
  }
  int domain_of(int rank) const { return in_cluster(rank) / domain_; }
  int island_of(int rank) const { return in_cluster(rank) / island_; }

 private:
  int in_cluster(int rank) const { return node_of(rank) * in_node_ + device_of(rank); }

  std::vector<std::int32_t> taken_;
  int nodes_, in_node_, domain_, island_;
};

// So many devices of a node, at most all of them, no two behind one PCIe switch as long as there
// are others, sockets in turn.
std::vector<std::int32_t> spread_devices(const TopologySpec& node, int count);

}  // namespace zplan
