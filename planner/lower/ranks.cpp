#include "planner/lower/ranks.h"

namespace zplan {
namespace {

// The data axis, or what it is split into, the part of neighbours first and that of the copies of
// what is sharded last. Secondary groups split the part between [Wang23 sec 3.2].
std::vector<NamedSize> data_axes(const Plan& plan) {
  const std::int32_t shards = plan.shards(), copies = plan.parallel.dp / shards;
  if (plan.secondary > 0)
    return {{"dp.0", plan.secondary}, {"dp.1", shards / plan.secondary}, {"dp.2", copies}};
  if (shards != plan.parallel.dp) return {{"dp.0", shards}, {"dp.1", copies}};
  return {{kDataAxis, plan.parallel.dp}};
}

}  // namespace

Mesh mesh_of(const Plan& plan) {
  const Parallel& shape = plan.parallel;
  const std::vector<NamedSize> data = data_axes(plan);
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
  const AxisSet data = mesh.named(kDataAxis);
  if (mesh.find(kDataAxis)) return data;
  AxisSet copies;
  for (std::size_t axis = 0; axis < mesh.axes.size(); ++axis)
    if (data.has(axis)) copies = {}, copies.add(axis);
  return data - copies;
}

}  // namespace zplan
