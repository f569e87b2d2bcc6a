// This sums up what the traffic of a class puts on the links of the network (fabric.h), in bytes
// per byte of its representative.
//
//   flows      the members of a group in one island send together to another island, of a ring 1 to
//              the next, each an equal part, and those there take in equal parts, spread evenly
//              over the ports of each. What comes to a switch that it left from stays below it. Of
//              the rest what leaves by a port arrives by the same port of the other node as far as
//              that takes in as much: rings pass so where they can [NCCL]. What then is left
//              spreads over all that still take in [derived]
//   apart      where two ports cannot reach each other, as on rails of their own, what is between
//              them goes to the port of the own node that can, and leaves there: port_changes()
//   ways       the shortest (fabric_routes.h)
//   own links  where nodes are wired to each other and the members hang together over links of
//              their own, the collective spreads over all of these: of its bytes each link carries
//                rate of the link / the narrowest cut among the members (narrowest_cut.h)
//              for all bytes cross each cut, and as many trees as the narrowest one carries reach
//              every member [Edmonds73]; rings that lie side by side do so on tori and meshes. A
//              link at a part of its rate thus carries as much less. All links are taken to be as
//              busy as those of the cut, also where fewer bytes need to pass them [assumed]
// Of each kind of link only the one that is slowest for its load counts, the first of equals.
#pragma once

#include <compare>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "hwprofiles/seating.h"
#include "planner/cost/node_wires.h"
#include "planner/cost/seats.h"

namespace zplan {

class FabricLoads {
 public:
  struct Load {
    LinkId link{};
    double weight = 0;
  };

  // Traffic of devices at one port of a node that leaves by another port of it.
  struct PortChange {
    int node = 0, from = 0, to = 0;
    friend auto operator<=>(const PortChange&, const PortChange&) = default;
  };
  using Changes = std::map<PortChange, double>;  // bytes

  FabricLoads(const NodeWires& wires, const Seating& seating);

  // These do nothing where the network is ideal.
  // Takes `bytes` from these ranks to those.
  void cross(std::span<const int> from, std::span<const int> to, double bytes = 1);
  // Takes 1 from each island of the group to the next.
  void ring(const GroupSeats& group);
  // Takes `part` from each member to each one of another island.
  void pairs(const GroupSeats& group, double part);

  std::vector<Load> busiest() const;
  // Returns what leaves by another port, since that of its senders does not reach the receiver's.
  const Changes& port_changes() const { return changes_; }

 private:
  // One port of a node carries such a part of what ranks send or take in.
  struct Part {
    VertexId at{};
    int node = 0, port = 0;
    double share = 0;
  };
  using Parts = std::vector<Part>;

  Parts parts(std::span<const int> ranks) const;
  Changes cross(Parts out, Parts in, double bytes);
  void change_ports(const std::vector<Parts>& of_islands, const GroupSeats& group, double part);
  bool meet(int port, int other) const;
  void match(Parts& from, Parts& to, double bytes, bool (*meet)(const Part&, const Part&));
  void add(const Part& from, const Part& to, double bytes);
  void add_weak_ports(std::span<const int> ranks);
  bool ring_of_own_links(const GroupSeats& group);
  std::vector<double> all_loads() const;

  const NodeWires& wires_;
  const NetworkWires* network_;
  const Seating& seating_;
  std::map<std::pair<VertexId, VertexId>, double> flows_;  // between switches with several ways
  std::vector<double> loads_;                              // by link, of all else
  Changes changes_;
};

}  // namespace zplan
