#include "planner/cost/wiring.h"

#include "planner/core/error.h"

namespace zplan {

Wiring::Wiring(const Mesh& mesh, const Cluster& cluster, SharedWires* shared)
    : cluster_(cluster),
      wires_(shared != nullptr ? shared->of(mesh) : SharedWires(cluster).of(mesh)) {
  ZPLAN_ASSERT(shared == nullptr || &shared->cluster() == &cluster);
}

std::vector<LinkShare> Wiring::shares(const Pattern& pattern) {
  std::vector<LinkShare> shares;
  for (const WireShare& share : wires_->shares(pattern))
    shares.push_back({link_index(share.at), share.weight});
  return shares;
}

std::uint32_t Wiring::link_index(const WireId& id) {
  const auto next = static_cast<std::uint32_t>(links_.size());
  const auto [at, added] = index_.try_emplace(id, next);
  if (added) links_.push_back(describe(cluster_, wires_->node(), id));
  return at->second;
}

}  // namespace zplan
