// The wires of one node of a cluster and of the network between its nodes, and the routes that
// transfers take over them. They depend on the cluster alone.
//
// Wires have numbers: the links of the topology, the time of each drive, host memory. Where devices
// are measured cores of the host two more follow: its cores, and what these have in common, both in
// picoseconds of work (core_time.h). Host memory is one bus for reads and writes of all sockets.
#pragma once

#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "hwprofiles/fabric.h"
#include "hwprofiles/fabric_routes.h"
#include "hwprofiles/hw_profile.h"
#include "hwprofiles/topology.h"
#include "planner/core/remembered.h"

namespace zplan {

// What each drive could read while it waits for the host, per byte of a transfer to or from all.
double drive_waits(const Cluster& cluster);

// A network that is not ideal.
struct NetworkWires {
  explicit NetworkWires(const Cluster& cluster)
      : fabric(Fabric(cluster).folded()), routes(fabric) {}

  // Returns the cut among these switches (fabric.h), which are in order. Several threads may ask at
  // a time.
  BytesPerSecond narrowest_cut(const std::vector<VertexId>& among) const {
    return cuts_.at(among, [&] { return fabric.narrowest_cut(among); });
  }

  const Fabric fabric;
  const FabricRoutes routes;

 private:
  mutable Remembered<std::vector<VertexId>, BytesPerSecond> cuts_;
};

// Several threads may ask at a time.
class NodeWires {
 public:
  using Route = std::vector<LinkId>;

  explicit NodeWires(const Cluster& cluster);

  const Topology& topology() const { return topology_; }
  const NetworkWires* network() const { return network_.get(); }  // null: an ideal one
  bool has_peer_link() const { return !peer_out_.empty(); }

  std::size_t links() const { return topology_.links().size(); }
  std::size_t drive(std::size_t i) const { return links() + i; }
  std::size_t host_memory() const { return drive(topology_.nvme_drives().size()); }
  std::size_t cores() const { return host_memory() + 1; }
  std::size_t caches() const { return host_memory() + 2; }

  const Route& to_dram(int gpu) const { return to_dram_[static_cast<std::size_t>(gpu)]; }
  const Route& from_dram(int gpu) const { return from_dram_[static_cast<std::size_t>(gpu)]; }
  // The routes to the network and from it, one over each NIC of the GPU. Both throw Error on a node
  // without NICs.
  const std::vector<Route>& out(int gpu) const;
  const std::vector<Route>& in(int gpu) const;
  // Where there are peer links.
  LinkId peer_out(int gpu) const { return peer_out_[static_cast<std::size_t>(gpu)]; }
  LinkId peer_in(int gpu) const { return peer_in_[static_cast<std::size_t>(gpu)]; }
  // Returns a route between drives and DRAM, or to a NIC of other GPUs. It is found when asked for,
  // as few jobs use such routes.
  const Route& rare_route(VertexId from, VertexId to);

 private:
  Topology topology_;
  std::unique_ptr<const NetworkWires> network_;
  std::vector<Route> to_dram_, from_dram_;    // by GPU
  std::vector<std::vector<Route>> out_, in_;  // by GPU; empty without NICs
  std::vector<LinkId> peer_out_, peer_in_;    // by GPU; empty without peer links
  Remembered<std::pair<VertexId, VertexId>, Route> rare_routes_;
};

}  // namespace zplan
