// The sum of what ranks put on the wires of some nodes, in bytes per byte of a representative.
// Of what is added only that of these nodes counts.
#pragma once

#include <map>
#include <span>
#include <vector>

#include "hwprofiles/hw_profile.h"
#include "planner/cost/cost_link.h"
#include "planner/cost/fabric_loads.h"
#include "planner/cost/node_wires.h"
#include "planner/cost/seats.h"
#include "planner/program/job/job.h"

namespace zplan {

struct WireShare {
  WireId at{};
  double weight = 0;  // bytes on the wire per byte of the representative
};

class WireLoads {
 public:
  WireLoads(const Cluster& cluster, NodeWires& wires, const Seats& seats,
            const std::vector<int>& nodes);

  void add_host(int node, double weight);
  void add_copy(int rank, Tier from, Tier to);
  // Of ranks of one island: a ring, and `bytes` between any two of them, each way.
  void add_ring(std::span<const int> ranks);
  void add_pairs(std::span<const int> ranks, double bytes);
  // Takes them from one rank to another, over peer links, through DRAM or over the network; null is
  // an ideal one.
  void add_transfer(int from, int to, FabricLoads* fabric);
  // Of each of these ranks to the network, and from it.
  void add_border(std::span<const int> ranks, double weight);
  // Moves bytes that devices send by their port to another port of the node, which they reach over
  // peer links to its devices [NCCL] or, where there are none, over PCIe.
  void change_port(int node, int from, int to, double bytes);

  // Of each kind of link the most loaded one per node, the first of equals.
  std::vector<WireShare> busiest() const;

 private:
  void add(int node, std::span<const LinkId> route, double weight);
  // An equal part of `weight` over each of these routes.
  void add_spread(int node, std::span<const NodeWires::Route> routes, double weight);
  void add_step(int from, int to, double share, double bytes);
  void add_exit(int rank, double weight);
  void add_exit(int node, int device, int port, double weight);
  std::vector<int> devices_at(int port) const;
  void add_entry(int rank, double weight);
  void add_drives(int rank, bool reads);
  void take_busiest(int node, const std::vector<double>& weights,
                    std::vector<WireShare>& shares) const;

  const Cluster& cluster_;
  NodeWires& wires_;
  const Seats& seats_;
  const Seating& seating_;
  std::map<int, std::vector<double>> loads_;  // by node and wire
};

}  // namespace zplan
