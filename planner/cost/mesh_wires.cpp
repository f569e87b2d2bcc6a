#include "planner/cost/mesh_wires.h"

#include <algorithm>

#include "planner/core/error.h"
#include "planner/cost/fabric_loads.h"
#include "planner/program/job/meetings.h"

namespace zplan {
namespace {

std::vector<WireShare> busiest(WireLoads& loads, const FabricLoads& network) {
  for (const auto& [ports, bytes] : network.port_changes())
    loads.change_port(ports.node, ports.from, ports.to, bytes);
  std::vector<WireShare> shares = loads.busiest();
  for (const FabricLoads::Load& most : network.busiest())
    shares.push_back({{kNetwork, index_of(most.link)}, most.weight});
  return shares;
}

}  // namespace

MeshWires::MeshWires(const Mesh& mesh, const Cluster& cluster, std::shared_ptr<NodeWires> node)
    : cluster_(cluster), node_(std::move(node)), seats_(mesh, cluster) {}

MeshWires::~MeshWires() = default;

const std::vector<WireShare>& MeshWires::shares(const Pattern& pattern) {
  return shares_.at(pattern, [&] { return find_shares(pattern); });
}

Reach MeshWires::reach(const Group& group, int stage) {
  const int first = stages_of(seats_.mesh(), group, stage).front();
  return reaches_.at({group, first}, [&] { return find_reach(group, stage); });
}

Way MeshWires::way(int stage, int other) {
  return ways_.at({stage, other}, [&] { return find_way(stage, other); });
}

int MeshWires::ranks_beside(int stage, AxisSet owners) {
  return beside_.at({stage, owners},
                    [&] { return static_cast<int>(seats_.siblings(stage, owners).size()); });
}

std::vector<WireShare> MeshWires::find_shares(const Pattern& pattern) {
  switch (pattern.kind) {
    case PatternKind::kCopy:
      return copy(pattern);
    case PatternKind::kHost:
      return host_stream(pattern);
    case PatternKind::kRing:
      return ring(pattern);
    case PatternKind::kPairs:
      return pairs(pattern);
    case PatternKind::kShift:
      return shift(pattern);
    case PatternKind::kBetween:
      return between(pattern.stage, pattern.first);
    case PatternKind::kCores:
      return cores(pattern);
  }
  ZPLAN_ASSERT(false);
  return {};
}

std::vector<WireShare> MeshWires::copy(const Pattern& pattern) {
  WireLoads loads(cluster_, *node_, seats_, {seats_.place(pattern.stage).node});
  for (const int rank : seats_.siblings(pattern.stage, pattern.group.axes))
    loads.add_copy(rank, static_cast<Tier>(pattern.first), static_cast<Tier>(pattern.second));
  return loads.busiest();
}

std::vector<WireShare> MeshWires::host_stream(const Pattern& pattern) {
  const int node = seats_.place(pattern.stage).node;
  const double members = ranks_beside(pattern.stage, pattern.group.axes);
  WireLoads loads(cluster_, *node_, seats_, {node});
  loads.add_host(node, members / cluster_.node.host.cpu_memory_efficiency);
  return loads.busiest();
}

std::vector<WireShare> MeshWires::cores(const Pattern& pattern) const {
  const CoreProfile& cores = *cluster_.node.cores;
  const int node = seats_.place(pattern.stage).node;
  const bool product = pattern.second % 2 == 1;
  const double threads = pattern.first * (pattern.second / 2);
  const double together = product ? cores.products_together : cores.streams_together;
  return {{{node, node_->cores()}, threads},
          {{node, node_->caches()}, threads * together / cores.cores}};
}

template <typename Put>
std::vector<WireShare> MeshWires::of_groups(const Pattern& pattern, Put put) {
  const bool alone = pattern.first == kAlone;
  const std::vector<GroupSeats> all = seats_.groups(pattern.group, pattern.stage, alone);
  WireLoads loads(cluster_, *node_, seats_,
                  seats_.nodes_of_interest(pattern.group, pattern.stage, all));
  FabricLoads network(*node_, seats_.seating());
  for (const GroupSeats& one : all) put(one, loads, alone ? nullptr : &network);
  return busiest(loads, network);
}

std::vector<WireShare> MeshWires::ring(const Pattern& pattern) {
  return of_groups(pattern, [](const GroupSeats& one, WireLoads& loads, FabricLoads* network) {
    for (std::size_t i = 0; i < one.islands(); ++i) {
      const std::span<const int> ranks = one.island(i);
      loads.add_ring(ranks);
      if (one.islands() == 1) continue;
      loads.add_border(ranks, 1.0 / static_cast<double>(ranks.size()));
    }
    if (network != nullptr) network->ring(one);
  });
}

std::vector<WireShare> MeshWires::pairs(const Pattern& pattern) {
  return of_groups(pattern, [](const GroupSeats& one, WireLoads& loads, FabricLoads* network) {
    const double part = 1.0 / static_cast<double>(one.ranks.size() - 1);
    for (std::size_t i = 0; i < one.islands(); ++i) {
      const std::span<const int> ranks = one.island(i);
      loads.add_pairs(ranks, part);
      if (one.islands() == 1) continue;
      loads.add_border(ranks, part * static_cast<double>(one.ranks.size() - ranks.size()));
    }
    if (network != nullptr) network->pairs(one, part);
  });
}

// Ranks ascend, as members do in index order along one axis.
std::vector<WireShare> MeshWires::shift(const Pattern& pattern) {
  return of_groups(pattern, [](const GroupSeats& one, WireLoads& loads, FabricLoads* network) {
    for (std::size_t i = 0; i < one.ranks.size(); ++i)
      loads.add_transfer(one.ranks[i], one.ranks[(i + 1) % one.ranks.size()], network);
  });
}

std::vector<WireShare> MeshWires::between(int from_stage, int to_stage) {
  WireLoads loads(cluster_, *node_, seats_,
                  {seats_.place(from_stage).node, seats_.place(to_stage).node});
  FabricLoads network(*node_, seats_.seating());
  const std::vector<int> senders = ranks_of_stage(seats_.mesh(), from_stage);
  const std::vector<int> receivers = ranks_of_stage(seats_.mesh(), to_stage);
  for (std::size_t i = 0; i < senders.size(); ++i)
    loads.add_transfer(senders[i], receivers[i], &network);
  return busiest(loads, network);
}

Reach MeshWires::find_reach(const Group& group, int stage) const {
  Reach found;
  if (!node_->has_peer_link()) found.peers = PeerUse::kNone;
  for (const GroupSeats& one : seats_.groups(group, stage)) {
    found.islands = std::max(found.islands, static_cast<int>(one.islands()));
    for (std::size_t i = 0; i < one.islands(); ++i)
      found.peers = std::max(found.peers, peer_use(one.island(i)));
  }
  return found;
}

PeerUse MeshWires::peer_use(std::span<const int> island) const {
  if (island.size() == 1) return PeerUse::kWhole;
  double share = seats_.peer_share(island);
  // Ranks ascend: where neighbours share a domain, all do.
  for (std::size_t j = 1; j < island.size(); ++j)
    share = seats_.step_share(island[j - 1], island[j], share);
  if (share >= 1) return PeerUse::kWhole;
  return share > 0 ? PeerUse::kPart : PeerUse::kNone;
}

Way MeshWires::find_way(int stage, int other) const {
  Way longest = Way::kPeerLink;
  const std::vector<int> from = ranks_of_stage(seats_.mesh(), stage);
  const std::vector<int> to = ranks_of_stage(seats_.mesh(), other);
  for (std::size_t i = 0; i < from.size(); ++i)
    longest = std::max(longest, seats_.way(from[i], to[i]));
  return longest;
}

}  // namespace zplan
