#include "planner/lower/ranks.h"

namespace zplan {
namespace {

constexpr std::string_view kSharing = "dp.0", kCopies = "dp.1";

}  // namespace

Mesh mesh_of(const Plan& plan) {
  const Parallel& shape = plan.parallel;
  std::vector<NamedSize> data{{kDataAxis, shape.dp}};
  if (plan.shards() != shape.dp)
    data = {{kSharing, plan.shards()}, {kCopies, shape.dp / plan.shards()}};
  std::vector<NamedSize> axes{{kTensorAxis, shape.tp}};
  axes.insert(axes.end(), data.begin(), data.end());
  axes.push_back({kPipelineAxis, shape.pp});

  std::vector<std::string_view> order{kTensorAxis};
  if (plan.order == RankOrder::kPipelineFirst) order.push_back(kPipelineAxis);
  for (const NamedSize& axis : data) order.push_back(axis.name);
  if (plan.order == RankOrder::kDataFirst) order.push_back(kPipelineAxis);
  return make_mesh(axes, order);
}

AxisSet shard_axes(const Mesh& mesh) {
  const auto sharing = mesh.find(kSharing);
  if (!sharing) return mesh.named(kDataAxis);
  AxisSet axes;
  axes.add(*sharing);
  return axes;
}

}  // namespace zplan
