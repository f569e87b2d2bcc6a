#include "planner/lower/ranks.h"

#include <algorithm>

#include "planner/lower/context_axis.h"
#include "planner/lower/expert_axis.h"
#include "planner/plan/plan_schedule.h"

namespace zplan {
namespace {

constexpr std::string_view kParts[] = {"dp.0", "dp.1", "dp.2", "dp.3"};
constexpr std::string_view kPairAxis = kParts[1];

// All but the last, of size 1, share what is sharded.
std::vector<NamedSize> paired_axes(const Plan& plan) {
  const std::int32_t experts = plan.parallel.expert_replicas();
  return {{kExpertAxis, experts},
          {kPairAxis, 2},
          {kParts[2], plan.parallel.dp / (2 * experts)},
          {kParts[3], 1}};
}

// The data axis, or the parts that groups within groups split it into: those of secondary shards
// [Wang23 sec 3.2], of parameters, of all that is sharded, and the copies of that. Each of these
// groups has all context parallel ranks of its replicas.
std::vector<NamedSize> data_axes(const Plan& plan) {
  std::vector<NamedSize> axes;
  if (pairs_replicas(plan)) return paired_axes(plan);
  std::int32_t within = plan.parallel.cp;
  const auto split = [&](std::int32_t ranks) {
    axes.push_back({kParts[axes.size()], ranks / within});
    within = ranks;
  };
  for (const std::int32_t ranks : {plan.secondary, plan.parameter_shards})
    if (ranks > 0) split(ranks);
  const std::int32_t all = plan.replicas();
  if (plan.parallel.ep > 1)
    return {{kExpertAxis, plan.parallel.expert_replicas()},
            {kParts[1], plan.parallel.dp / plan.parallel.expert_replicas()},
            {kParts[2], 1}};
  if (axes.empty() && plan.shards() == all) return {{kDataAxis, plan.parallel.dp}};
  split(plan.shards());
  split(all);
  return axes;
}

}  // namespace

Mesh mesh_of(const Plan& plan) {
  const Parallel& shape = plan.parallel;
  const std::vector<NamedSize> data = data_axes(plan);
  std::vector<NamedSize> context;
  if (plan.exchange_ranks() > 1) context.push_back({exchange_axis(plan), plan.exchange_ranks()});
  if (shape.ring > 1) context.push_back({kRingAxis, shape.ring});
  std::vector<NamedSize> indexed = context;
  indexed.insert(indexed.end(), data.begin(), data.end());
  if (plan.parameter_shards > 0) std::rotate(indexed.begin(), indexed.end() - 2, indexed.end() - 1);
  std::vector<NamedSize> axes{{kTensorAxis, shape.tp}};
  axes.insert(axes.end(), indexed.begin(), indexed.end());
  axes.push_back({kPipelineAxis, shape.pp});

  std::vector<std::string_view> order{kTensorAxis};
  for (const NamedSize& axis : context) order.push_back(axis.name);
  if (plan.order == RankOrder::kPipelineFirst) order.push_back(kPipelineAxis);
  for (const NamedSize& axis : data) order.push_back(axis.name);
  if (plan.order == RankOrder::kDataFirst) order.push_back(kPipelineAxis);
  Mesh mesh = make_mesh(axes, order);
  mesh.gpus = plan.gpus;
  return mesh;
}

AxisSet expert_axes(const Plan& plan, const Mesh& mesh) {
  if (plan.parallel.ep == 1) return {};
  const AxisSet replicas = mesh.named(kExpertAxis);
  return plan.parallel.folds_experts() ? replicas | mesh.named(kTensorAxis) : replicas;
}

AxisSet shard_axes(const Mesh& mesh) {
  const AxisSet data = mesh.named(kDataAxis), all = data | mesh.named(kContextAxis);
  if (mesh.find(kDataAxis)) return all;
  AxisSet copies;
  for (std::size_t axis = 0; axis < mesh.axes.size(); ++axis)
    if (data.has(axis)) copies = {}, copies.add(axis);
  return all - copies;
}

AxisSet pair_axes(const Plan& plan, const Mesh& mesh) {
  return pairs_replicas(plan) ? mesh.named(kPairAxis) : AxisSet();
}

AxisSet neighbours(const Mesh& mesh, AxisSet axes, std::int32_t ranks) {
  if (ranks == mesh.size(axes)) return axes;
  std::vector<std::size_t> nearest;
  for (std::size_t axis = 0; axis < mesh.axes.size(); ++axis)
    if (axes.has(axis)) nearest.push_back(axis);
  std::sort(nearest.begin(), nearest.end(), [&](std::size_t a, std::size_t b) {
    return mesh.axes[a].stride < mesh.axes[b].stride;
  });
  AxisSet near;
  for (const std::size_t axis : nearest)
    if (mesh.size(near) < ranks) near.add(axis);
  return near;
}

}  // namespace zplan
