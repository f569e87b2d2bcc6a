#include "planner/cost/seats.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>

#include "planner/core/error.h"
#include "planner/program/job/meetings.h"

namespace zplan {

bool GroupSeats::is_in(int node) const {
  const auto at = std::lower_bound(members.begin(), members.end(), std::pair{node, 0});
  return at != members.end() && at->first == node;
}

std::span<const int> GroupSeats::island(std::size_t i) const {
  const std::size_t end = i + 1 < begins.size() ? begins[i + 1] : ranks.size();
  return std::span(ranks).subspan(begins[i], end - begins[i]);
}

int GroupSeats::least_node(const Seating& seating) const {
  std::span<const int> least = island(0);
  for (std::size_t i = 1; i < islands(); ++i) {
    if (island(i).size() < least.size()) least = island(i);
  }
  return seating.node_of(least.front());
}

Seats::Seats(const Mesh& mesh, const Cluster& cluster)
    : mesh_(mesh), cluster_(cluster), seating_(cluster, mesh.gpus) {
  if (mesh.world() > seating_.devices()) {
    throw_bad_input(fmt::format("{}: expected at least {} devices for the job, got {}",
                                cluster.name, mesh.world(), seating_.devices()));
  }
  find_places();
}

void Seats::find_places() {
  std::map<int, int> all;
  for (int rank = 0; rank < mesh_.world(); ++rank) ++all[seating_.node_of(rank)];
  const std::int32_t stages = mesh_.axes[mesh_.pipeline()].size;
  for (int stage = 0; stage < stages; ++stage) {
    const GroupSeats own = seats_of(ranks_of_stage(mesh_, stage));
    ClassPlace place;
    for (const auto& [node, members] : own.members) {
      if (members > place.members) place = {node, 0, members, all[node]};
    }
    place.rank = *std::find_if(own.ranks.begin(), own.ranks.end(),
                               [&](int rank) { return seating_.node_of(rank) == place.node; });
    places_.push_back(place);
  }
}

// Ranks ascend.
GroupSeats Seats::seats_of(std::vector<int> ranks) const {
  std::sort(ranks.begin(), ranks.end());
  GroupSeats group{std::move(ranks), {}, {}};
  int island = -1;
  for (std::size_t i = 0; i < group.ranks.size(); ++i) {
    const int rank = group.ranks[i], node = seating_.node_of(rank);
    if (group.members.empty() || group.members.back().first != node) {
      group.members.emplace_back(node, 0);
    }
    ++group.members.back().second;
    if (seating_.island_of(rank) != island) group.begins.push_back(i);
    island = seating_.island_of(rank);
  }
  return group;
}

std::vector<int> Seats::siblings(int stage, AxisSet owners) const {
  const ClassPlace& at = place(stage);
  const auto index = [&](int rank) { return mesh_.index_in(owners, mesh_.point(rank)); };
  std::vector<int> ranks = ranks_of_stage(mesh_, stage);
  std::erase_if(ranks, [&](int rank) {
    return seating_.node_of(rank) != at.node || index(rank) != index(at.rank);
  });
  return ranks;
}

std::vector<GroupSeats> Seats::groups(const Group& group, int stage, bool alone) const {
  std::vector<GroupSeats> all;
  for (std::vector<std::int32_t>& ranks : groups_at(mesh_, group, stage))
    all.push_back(seats_of(std::move(ranks)));
  if (!alone) return all;
  const int home = place(stage).node;
  return {*std::find_if(all.begin(), all.end(),
                        [&](const GroupSeats& one) { return one.is_in(home); })};
}

std::vector<int> Seats::nodes_of_interest(const Group& group, int stage,
                                          const std::vector<GroupSeats>& all) const {
  std::vector<int> nodes;
  for (const std::int32_t at : stages_of(mesh_, group, stage)) nodes.push_back(place(at).node);
  if (group.ends) return nodes;
  for (const GroupSeats& one : all) {
    if (one.is_in(nodes.front())) nodes.push_back(one.least_node(seating_));
  }
  return nodes;
}

double Seats::peer_share(std::span<const int> ranks) const {
  const TopologySpec& wires = cluster_.node.topology;
  if (!wires.gpu_peer) return 0;
  if (wires.peer_shape.kind == PeerKind::kSwitch) return 1;
  std::vector<int> gpus;
  for (const int rank : ranks) gpus.push_back(seating_.device_of(rank));
  return ring_share(wires.peer_shape, gpus);
}

Way Seats::way(int from, int to) const {
  if (seating_.island_of(from) != seating_.island_of(to)) return Way::kNetwork;
  const bool peers = step_share(from, to, peer_share(std::array{from, to})) > 0;
  return peers ? Way::kPeerLink : Way::kHostMemory;
}

}  // namespace zplan
