// The network of a cluster as a graph of switches (network.h), on which the ports of its nodes
// hang.
//
//   leaf and spine   leaf switches, of which each has one link up to the spine and one down, at the
//                    rate of all its uplinks together
//   graph            what the rules say; the links of ports count where they are weak, for a port's
//                    own rate counts in its node
// Switches that no load tells apart are one: those that the ports of no node hang on, and that have
// equal links to equal switches. What such switches carry is the same of each [derived]: the
// partition is equitable, so all switches of a class are as far from any port, and every flow that
// comes to the class in equal parts leaves it so. folded() finds them by refining colours.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "hwprofiles/hw_profile.h"
#include "hwprofiles/topology.h"
#include "hwprofiles/wire_graph.h"

namespace zplan {

class Fabric {
 public:
  // The network is not ideal. Throws Error where a port hangs on no switch or on two, or
  // cannot reach the same port of another node: rails may be apart.
  explicit Fabric(const Cluster& cluster);

  const WireGraph& graph() const { return graph_; }
  VertexId switch_of(int node, int port) const { return ports_[port_index(node, port)]; }
  // The same but of a weak port, which is a vertex of its own on the way to this switch.
  VertexId switch_behind(int node, int port) const { return behind_[port_index(node, port)]; }
  bool meet(VertexId a, VertexId b) const { return part_of(a) == part_of(b); }
  // Returns true if the ports of each node hang on a switch of its own, as where nodes are wired to
  // each other.
  bool is_direct() const { return direct_; }
  // Returns what reports call the link, as "leaf uplink" or "router to router".
  std::string_view kind(LinkId link) const { return kinds_[kind_number(link)]; }
  std::size_t kind_number(LinkId link) const { return facts(link).kind; }
  // Each of several shortest ways has a part in proportion to its weight.
  double weight(LinkId link) const { return facts(link).weight; }

  // The same with switches that no load tells apart as one.
  Fabric folded() const;
  // Returns what the first half of the nodes can send to the second, each port at most at this
  // rate, where a flow may be split over ways of any length.
  BytesPerSecond bisection(BytesPerSecond port) const;
  // Returns the least that the links among these switches carry from some of them to all others of
  // them; 0 where the links do not join all.
  BytesPerSecond narrowest_cut(std::span<const VertexId> among) const;

 private:
  struct Facts {
    std::size_t kind = 0;
    double weight = 1;
  };
  class Builder;

  Fabric() = default;
  const Facts& facts(LinkId link) const { return facts_[index_of(link)]; }
  int part_of(VertexId at) const { return parts_[index_of(at)]; }
  std::size_t kind_of(const std::string& name);
  void add_link(VertexId from, VertexId to, BytesPerSecond rate, double weight, std::size_t kind,
                std::string name);
  std::size_t port_index(int node, int port) const {
    return static_cast<std::size_t>(node) * static_cast<std::size_t>(ports_per_node_) +
           static_cast<std::size_t>(port);
  }
  void finish();
  void find_parts();
  void check() const;
  void find_direct();
  std::vector<int> colours() const;

  WireGraph graph_;
  std::vector<Facts> facts_;  // by link
  std::vector<std::string> kinds_;
  std::vector<VertexId> ports_, behind_;  // by node and port
  std::vector<int> parts_;                // by switch: those of one number reach each other
  int ports_per_node_ = 0;
  bool direct_ = false;
};

}  // namespace zplan
