// What the traffic of a class puts on the uplinks of leaf switches (network.h), in bytes per byte
// of its representative.
//
// The members of a group in one island send together to another island, of a ring 1 to the next,
// each an equal part, and those there take in equal parts. What a leaf switch sends out and takes
// in of it at once stays below the spine; the rest loads its uplinks, up where it leaves and down
// where it arrives. [derived] Rings pass from a port to the same port of the next node where they
// can [NCCL]. Leaves are alike, so of all uplinks of each direction only the most loaded one
// counts, the first of equals.
#pragma once

#include <map>
#include <optional>
#include <span>

#include "hwprofiles/hw_profile.h"
#include "hwprofiles/seating.h"
#include "hwprofiles/topology.h"

namespace zplan {

class LeafLoads {
 public:
  struct Uplink {
    int leaf_switch = 0;  // leaf x rails + rail
    bool up = true;
    double weight = 0;
  };

  LeafLoads(const Cluster& cluster, const Seating& seating, const Topology& topology);

  // `bytes` from these ranks to those. Nothing where the network has no leaves.
  void cross(std::span<const int> from, std::span<const int> to, double bytes = 1);
  std::optional<Uplink> busiest(bool up) const;

 private:
  std::map<int, double> shares(std::span<const int> ranks) const;

  const Cluster& cluster_;
  const Seating& seating_;
  const Topology& topology_;
  std::map<int, double> up_, down_;  // by leaf switch
};

// Leaf switches side by side in a leaf.
int rails_of(const Cluster& cluster);

// One direction of all uplinks of a leaf switch.
BytesPerSecond uplink_capacity(const Cluster& cluster);

}  // namespace zplan
