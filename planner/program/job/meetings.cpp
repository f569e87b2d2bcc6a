#include "planner/program/job/meetings.h"

#include <algorithm>

#include "planner/core/error.h"

namespace zplan {
namespace {

MeshPoint first_of_stage(const Mesh& mesh, std::int32_t stage) {
  MeshPoint at{};
  at[mesh.pipeline()] = stage;
  return at;
}

// Calls visit(point) for all points that differ from `at` along `axes` only, in index order.
template <typename Visit>
void for_points(const Mesh& mesh, AxisSet axes, MeshPoint at, const Visit& visit) {
  for (std::size_t a = 0; a < mesh.axes.size(); ++a)
    if (axes.has(a)) at[a] = 0;
  while (true) {
    visit(at);
    std::size_t a = 0;
    for (; a < mesh.axes.size(); ++a) {
      if (!axes.has(a)) continue;
      if (++at[a] < mesh.axes[a].size) break;
      at[a] = 0;
    }
    if (a == mesh.axes.size()) return;
  }
}

std::vector<std::int32_t> ranks_along(const Mesh& mesh, const Group& group, const MeshPoint& from) {
  std::vector<std::int32_t> ranks;
  for_points(mesh, group.axes, from, [&](const MeshPoint& at) {
    if (mesh.is_member(group, at)) ranks.push_back(mesh.rank_of(at));
  });
  return ranks;
}

}  // namespace

Members members_of(const Mesh& mesh, const Group& group, std::int32_t rank) {
  const MeshPoint own = mesh.point(rank);
  if (!mesh.is_member(group, own)) return {{rank}, 0};
  Members members{ranks_along(mesh, group, own), 0};
  const auto place = std::find(members.ranks.begin(), members.ranks.end(), rank);
  members.own_index = static_cast<int>(place - members.ranks.begin());
  return members;
}

std::vector<std::vector<std::int32_t>> groups_at(const Mesh& mesh, const Group& group,
                                                 std::int32_t stage) {
  std::vector<std::vector<std::int32_t>> groups;
  AxisSet others = mesh.all() - group.axes;
  AxisSet of_stage;
  of_stage.add(mesh.pipeline());
  others = others - of_stage;
  for_points(mesh, others, first_of_stage(mesh, stage),
             [&](const MeshPoint& at) { groups.push_back(ranks_along(mesh, group, at)); });
  return groups;
}

std::vector<std::int32_t> ranks_of_stage(const Mesh& mesh, std::int32_t stage) {
  AxisSet of_stage;
  of_stage.add(mesh.pipeline());
  return ranks_along(mesh, {mesh.all() - of_stage}, first_of_stage(mesh, stage));
}

std::int32_t peer_rank(const Mesh& mesh, std::int32_t rank, const Peer& peer) {
  return mesh.rank_of(mesh.peer(mesh.point(rank), peer).value());
}

bool spans_stages(const Mesh& mesh, const Group& group) {
  const std::size_t axis = mesh.pipeline();
  return group.axes.has(axis) && mesh.axes[axis].size > 1;
}

std::vector<std::int32_t> stages_of(const Mesh& mesh, const Group& group, std::int32_t stage) {
  if (!spans_stages(mesh, group)) return {stage};
  std::vector<std::int32_t> stages;
  for (std::int32_t s = 0; s < mesh.axes[mesh.pipeline()].size; ++s)
    if (in_group(mesh, group, s)) stages.push_back(s);
  return stages;
}

bool in_group(const Mesh& mesh, const Group& group, std::int32_t stage) {
  if (!group.ends || !group.axes.has(mesh.pipeline())) return true;
  return stage == 0 || stage == mesh.axes[mesh.pipeline()].size - 1;
}

std::optional<std::int32_t> peer_stage(const Mesh& mesh, std::int32_t stage, const Peer& peer) {
  const auto there = mesh.peer(first_of_stage(mesh, stage), peer);
  if (!there) return std::nullopt;
  return (*there)[mesh.pipeline()];
}

std::int32_t reporting_rank(const Job& job) {
  const auto reports = [](const Node& node) {
    return node.kind == OpKind::kKernel && node.kernel == KernelId::kReport;
  };
  std::int32_t stage = job.stages() - 1;
  for (const RankClass& c : job.classes)
    if (std::any_of(c.program.nodes.begin(), c.program.nodes.end(), reports)) stage = c.stage;
  return ranks_of_stage(job.mesh, stage).front();
}

}  // namespace zplan
