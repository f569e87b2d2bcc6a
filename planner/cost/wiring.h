// The links that one CostModel meets, numbered in that order, and which of them a pattern of
// transfers loads. What a pattern loads is found once per mesh (mesh_wires.h).
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "planner/cost/cost_link.h"
#include "planner/cost/mesh_wires.h"
#include "planner/cost/pattern.h"
#include "planner/cost/shared_wires.h"
#include "planner/program/job/mesh.h"

namespace zplan {

struct LinkShare {
  std::uint32_t link = 0;  // index into Wiring::links()
  double weight = 0;       // bytes on the link per byte of the representative
};

class Wiring {
 public:
  // `cluster` must outlive it. `shared`: of this cluster; null: it shares with nobody. Throws Error
  // when the cluster has too few devices.
  Wiring(const Mesh& mesh, const Cluster& cluster, SharedWires* shared = nullptr);

  const std::vector<CostLink>& links() const { return links_; }
  const ClassPlace& place(int stage) const { return wires_->seats().place(stage); }
  Reach reach(const Group& group, int stage) const { return wires_->reach(group, stage); }
  Way way(int stage, int other) const { return wires_->way(stage, other); }
  int ranks_beside(int stage, AxisSet owners) const { return wires_->ranks_beside(stage, owners); }
  int ranks_per_node() const { return wires_->seats().seating().per_node(); }
  bool has_peer_link() const { return wires_->node().has_peer_link(); }

  std::vector<LinkShare> shares(const Pattern& pattern);

 private:
  std::uint32_t link_index(const WireId& id);

  const Cluster& cluster_;
  const std::shared_ptr<MeshWires> wires_;
  std::vector<CostLink> links_;            // met so far
  std::map<WireId, std::uint32_t> index_;  // -> links_
};

}  // namespace zplan
