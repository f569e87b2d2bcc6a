// This finds the links of a network that a flow takes, and how much of it goes over each.
//
// A flow takes all shortest ways, by the number of links: at each switch its parts go over the
// links that come nearer, in proportion to their weights. A switch with one neighbour, and then one
// whose other neighbours all have no other, has only one way on: there, as everywhere in a folded
// tree of switches, no way has to be looked for.
// Left out: ways that are longer than the shortest, as adaptive routing may take in a dragonfly;
// flows that meet on one of several ways because they are few.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "hwprofiles/fabric.h"

namespace zplan {

class FabricRoutes {
 public:
  // `fabric` must outlive it.
  explicit FabricRoutes(const Fabric& fabric);

  // Adds the bytes to the loads of the links, by number. Several threads may ask at a time.
  void add(VertexId from, VertexId to, double bytes, std::vector<double>& loads) const;
  // The same on the only ways from both ends. Returns the switches between which several are left;
  // they are one where none are.
  std::pair<VertexId, VertexId> add_only_ways(VertexId from, VertexId to, double bytes,
                                              std::vector<double>& loads) const;

 private:
  struct OnlyWay {
    LinkId out{}, in{};  // to the neighbour, and back; none: there are several
    int depth = 0;       // links until there are
  };

  const OnlyWay& way(VertexId at) const { return ways_[index_of(at)]; }
  void find_only_ways();
  std::shared_ptr<const std::vector<int>> hops_to(VertexId to) const;
  void add_spread(VertexId from, VertexId to, double bytes, std::vector<double>& loads) const;

  const Fabric& fabric_;
  std::vector<OnlyWay> ways_;  // by switch
  mutable std::mutex mutex_;
  mutable std::map<VertexId, std::shared_ptr<const std::vector<int>>> hops_;
};

}  // namespace zplan
