#include "planner/cost/shared_wires.h"

#include <algorithm>
#include <cstddef>
#include <tuple>

namespace zplan {
namespace {

// [derived] A search meets some hundred meshes; of one with a hundred stages some hundred KiB are
// remembered.
constexpr std::size_t kMostMeshes = 512;

}  // namespace

bool SharedWires::Less::operator()(const Mesh& a, const Mesh& b) const {
  if (a.gpus != b.gpus) return a.gpus < b.gpus;
  const auto less = [](const Axis& x, const Axis& y) {
    return std::tie(x.size, x.stride, x.name) < std::tie(y.size, y.stride, y.name);
  };
  return std::lexicographical_compare(a.axes.begin(), a.axes.end(), b.axes.begin(), b.axes.end(),
                                      less);
}

SharedWires::SharedWires(const Cluster& cluster)
    : cluster_(cluster), node_(std::make_shared<NodeWires>(cluster)) {}

std::shared_ptr<MeshWires> SharedWires::of(const Mesh& mesh) {
  {
    const std::lock_guard lock(mutex_);
    if (const auto known = known_.find(mesh); known != known_.end()) return known->second;
  }
  auto found = std::make_shared<MeshWires>(mesh, cluster_, node_);
  const std::lock_guard lock(mutex_);
  if (known_.size() >= kMostMeshes) known_.clear();
  return known_.try_emplace(mesh, std::move(found)).first->second;
}

}  // namespace zplan
