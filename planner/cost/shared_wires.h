// What CostModels of many Jobs on one cluster share: the routes of a node, and of each mesh which
// wires its transfers load (mesh_wires.h). A CostModel numbers the links that it meets by itself,
// so its answers do not depend on what others asked before.
#pragma once

#include <map>
#include <memory>
#include <mutex>

#include "hwprofiles/hw_profile.h"
#include "planner/cost/mesh_wires.h"
#include "planner/program/job/mesh.h"

namespace zplan {

// Several threads may ask at a time, and build CostModels with it.
class SharedWires {
 public:
  // `cluster` must outlive all that is asked of it.
  explicit SharedWires(const Cluster& cluster);

  const Cluster& cluster() const { return cluster_; }
  // Throws Error when the cluster has too few devices. Of so many meshes that memory may grow short
  // the earlier ones are forgotten; who holds one keeps it.
  std::shared_ptr<MeshWires> of(const Mesh& mesh);

 private:
  struct Less {
    bool operator()(const Mesh& a, const Mesh& b) const;
  };

  const Cluster& cluster_;
  const std::shared_ptr<NodeWires> node_;
  std::mutex mutex_;
  std::map<Mesh, std::shared_ptr<MeshWires>, Less> known_;
};

}  // namespace zplan
