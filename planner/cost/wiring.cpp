#include "planner/cost/wiring.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <numeric>

#include "planner/core/error.h"
#include "planner/program/job/meetings.h"

namespace zplan {
namespace {

using KindPair = std::pair<VertexKind, VertexKind>;
constexpr KindPair kDriveTime{VertexKind::kNvme, VertexKind::kNvme};
constexpr int kLeaves = -1;  // in place of a node; its wires: twice the leaf switch, + 1 down

std::string kind_name(KindPair ends) {
  const auto has = [&](VertexKind kind) { return ends.first == kind || ends.second == kind; };
  if (has(VertexKind::kFabric)) return "NIC";
  if (has(VertexKind::kNic)) return "PCIe of NIC";
  if (has(VertexKind::kNvSwitch)) return std::string(kPeerLink);
  if (has(VertexKind::kGpu)) return "PCIe";
  if (has(VertexKind::kPcieSwitch)) return "PCIe uplink";
  if (has(VertexKind::kDram)) return "DRAM";
  if (has(VertexKind::kNvme)) return "NVMe";
  return "socket link";
}

}  // namespace

double drive_waits(const Cluster& cluster) {
  constexpr double kGiga = 1e9;
  return cluster.stack.host_drives / kGiga * cluster.node.topology.nvme_read.effective().value;
}

Wiring::Wiring(const Job& job, const Cluster& cluster)
    : job_(job),
      cluster_(cluster),
      seating_(cluster, job.mesh.gpus),
      topology_(cluster.node.topology) {
  if (job.world() > seating_.devices()) {
    throw_bad_input(fmt::format("{}: expected at least {} devices for the job, got {}",
                                cluster.name, job.world(), seating_.devices()));
  }
  find_routes();
  find_places();
}

void Wiring::find_routes() {
  for (int gpu = 0; gpu < topology_.gpu_count(); ++gpu) {
    to_dram_.push_back(topology_.route(topology_.gpu(gpu), topology_.dram_of(gpu)));
    from_dram_.push_back(topology_.route(topology_.dram_of(gpu), topology_.gpu(gpu)));
    if (!topology_.nic_of(gpu)) continue;
    out_.push_back(topology_.route_out(gpu));
    in_.push_back(topology_.route_in(gpu));
  }
  for (std::size_t i = 0; i < topology_.links().size(); ++i) {
    const Link& link = topology_.links()[i];
    const LinkId id{static_cast<std::int32_t>(i)};
    if (topology_.vertex(link.to).kind == VertexKind::kNvSwitch) peer_out_.push_back(id);
    if (topology_.vertex(link.from).kind == VertexKind::kNvSwitch) peer_in_.push_back(id);
  }
}

void Wiring::find_places() {
  std::map<int, int> all;
  for (int rank = 0; rank < job_.world(); ++rank) ++all[seating_.node_of(rank)];
  for (int stage = 0; stage < job_.stages(); ++stage) {
    const Seats own = seats_of(ranks_of_stage(job_.mesh, stage));
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
Wiring::Seats Wiring::seats_of(std::vector<int> ranks) const {
  std::sort(ranks.begin(), ranks.end());
  Seats group{std::move(ranks), {}, {}};
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

bool Wiring::Seats::is_in(int node) const {
  const auto at = std::lower_bound(members.begin(), members.end(), std::pair{node, 0});
  return at != members.end() && at->first == node;
}

std::span<const int> Wiring::Seats::island(std::size_t i) const {
  const std::size_t end = i + 1 < begins.size() ? begins[i + 1] : ranks.size();
  return std::span(ranks).subspan(begins[i], end - begins[i]);
}

int Wiring::Seats::least_node(const Seating& seating) const {
  std::span<const int> least = island(0);
  for (std::size_t i = 1; i < islands(); ++i) {
    if (island(i).size() < least.size()) least = island(i);
  }
  return seating.node_of(least.front());
}

std::vector<Wiring::Seats> Wiring::groups(const Group& group, int stage) const {
  std::vector<Seats> result;
  for (std::vector<std::int32_t>& ranks : groups_at(job_.mesh, group, stage))
    result.push_back(seats_of(std::move(ranks)));
  return result;
}

Reach Wiring::reach(const Group& group, int stage) {
  const auto [at, added] =
      reaches_.try_emplace({group, stages_of(job_.mesh, group, stage).front()});
  if (!added) return at->second;
  Reach& found = at->second;
  if (!has_peer_link()) found.peers = PeerUse::kNone;
  for (const Seats& one : groups(group, stage)) {
    found.islands = std::max(found.islands, static_cast<int>(one.islands()));
    for (std::size_t i = 0; i < one.islands(); ++i) {
      const std::span<const int> ranks = one.island(i);
      if (ranks.size() == 1) continue;
      double share = peer_share(ranks);
      // Ranks ascend: where neighbours share a domain, all do.
      for (std::size_t j = 1; j < ranks.size(); ++j)
        share = step_share(ranks[j - 1], ranks[j], share);
      const PeerUse use = share >= 1  ? PeerUse::kWhole
                          : share > 0 ? PeerUse::kPart
                                      : PeerUse::kNone;
      found.peers = std::max(found.peers, use);
    }
  }
  return found;
}

double Wiring::peer_share(std::span<const int> ranks) const {
  if (!has_peer_link()) return 0;
  const PeerShape& shape = cluster_.node.topology.peer_shape;
  if (shape.kind == PeerKind::kSwitch) return 1;
  std::vector<int> gpus;
  for (const int rank : ranks) gpus.push_back(seating_.device_of(rank));
  return ring_share(shape, gpus);
}

Way Wiring::way_between(int from, int to) const {
  if (seating_.island_of(from) != seating_.island_of(to)) return Way::kNetwork;
  const bool peers = step_share(from, to, peer_share(std::array{from, to})) > 0;
  return peers ? Way::kPeerLink : Way::kHostMemory;
}

Way Wiring::way(int stage, int other) const {
  Way longest = Way::kPeerLink;
  const std::vector<int> from = ranks_of_stage(job_.mesh, stage);
  const std::vector<int> to = ranks_of_stage(job_.mesh, other);
  for (std::size_t i = 0; i < from.size(); ++i)
    longest = std::max(longest, way_between(from[i], to[i]));
  return longest;
}

// Nodes whose links matter to the group: those of the representatives of its classes and, of the
// groups that meet there, those of the islands with fewest members.
std::vector<int> Wiring::nodes_of_interest(const Group& group, int stage,
                                           const std::vector<Seats>& all) const {
  std::vector<int> nodes;
  for (const std::int32_t at : stages_of(job_.mesh, group, stage)) nodes.push_back(place(at).node);
  if (group.ends) return nodes;
  for (const Seats& one : all) {
    if (one.is_in(nodes.front())) nodes.push_back(one.least_node(seating_));
  }
  return nodes;
}

Wiring::Loads Wiring::loads_at(const std::vector<int>& nodes) const {
  Loads loads;
  const std::size_t wires = topology_.links().size() + topology_.nvme_drives().size() + 1;
  for (const int node : nodes) loads[node].assign(wires, 0.0);
  return loads;
}

void Wiring::add(Loads& loads, int node, std::span<const LinkId> route, double weight) const {
  const auto at = loads.find(node);
  if (at == loads.end()) return;
  for (const LinkId link : route) at->second[static_cast<std::size_t>(link.index)] += weight;
}

void Wiring::add_host(Loads& loads, int node, double weight) const {
  if (const auto at = loads.find(node); at != loads.end()) at->second.back() += weight;
}

// `share`: of the peer links' rate.
void Wiring::add_step(Loads& loads, int from, int to, double share, double bytes) const {
  const auto sender = static_cast<std::size_t>(seating_.device_of(from));
  const auto receiver = static_cast<std::size_t>(seating_.device_of(to));
  const int node = seating_.node_of(from);
  if (share > 0) {
    add(loads, node, {&peer_out_[sender], 1}, bytes / share);
    add(loads, seating_.node_of(to), {&peer_in_[receiver], 1}, bytes / share);
    return;
  }
  add(loads, node, to_dram_[sender], bytes);
  add(loads, node, from_dram_[receiver], bytes);
  add_host(loads, node, 2 * bytes);  // written once, read once
}

// A ring of ranks of one island.
void Wiring::add_steps(Loads& loads, std::span<const int> ranks) const {
  if (ranks.size() == 1) return;
  const double share = peer_share(ranks);
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    const int to = ranks[(i + 1) % ranks.size()];
    add_step(loads, ranks[i], to, step_share(ranks[i], to, share));
  }
}

// `bytes` between any two ranks of one island, each way.
void Wiring::add_pairs(Loads& loads, std::span<const int> ranks, double bytes) const {
  if (ranks.size() == 1) return;
  const double share = peer_share(ranks);
  for (const int from : ranks)
    for (const int to : ranks)
      if (from != to) add_step(loads, from, to, step_share(from, to, share), bytes);
}

void Wiring::add_exit(Loads& loads, int rank, double weight) const {
  const int gpu = seating_.device_of(rank);
  const Route& route = out_.empty() ? topology_.route_out(gpu)  // throws: no NIC
                                    : out_[static_cast<std::size_t>(gpu)];
  add(loads, seating_.node_of(rank), route, weight);
}

void Wiring::add_entry(Loads& loads, int rank, double weight) const {
  const int gpu = seating_.device_of(rank);
  const Route& route = in_.empty() ? topology_.route_in(gpu) : in_[static_cast<std::size_t>(gpu)];
  add(loads, seating_.node_of(rank), route, weight);
}

void Wiring::add_drives(Loads& loads, int node, int gpu, bool reads) {
  const std::vector<VertexId>& drives = topology_.nvme_drives();
  if (drives.empty()) throw_bad_input(cluster_.name + ": expected NVMe drives, got none");
  const VertexId dram = topology_.dram_of(gpu);
  const double part = 1.0 / static_cast<double>(drives.size());
  const TopologySpec& spec = cluster_.node.topology;
  const double slower = spec.nvme_read.effective().value / spec.nvme_write.effective().value;
  const double waits = drive_waits(cluster_);
  const double beside = waits > 0 ? 0 : cluster_.node.nvme.read_beside_write;
  const double taken = slower * (1 - beside);
  for (std::size_t i = 0; i < drives.size(); ++i) {
    const std::pair ends = reads ? std::pair{drives[i], dram} : std::pair{dram, drives[i]};
    const auto [route, added] = drive_routes_.try_emplace(ends);
    if (added) route->second = topology_.route(ends.first, ends.second);
    add(loads, node, route->second, part);
    if (const auto at = loads.find(node); at != loads.end()) {
      at->second[topology_.links().size() + i] += (reads ? part : part * taken) + waits;
    }
  }
}

void Wiring::add_copy(Loads& loads, int node, int gpu, Tier from, Tier to) {
  const auto g = static_cast<std::size_t>(gpu);
  if (from == Tier::kGpu) add(loads, node, to_dram_[g], 1);
  if (to == Tier::kGpu) add(loads, node, from_dram_[g], 1);
  if (from == Tier::kNvme) add_drives(loads, node, gpu, true);
  if (to == Tier::kNvme) add_drives(loads, node, gpu, false);
}

std::vector<int> Wiring::siblings(int stage, AxisSet owners) const {
  const ClassPlace& at = place(stage);
  const auto index = [&](int rank) { return job_.mesh.index_in(owners, job_.mesh.point(rank)); };
  std::vector<int> ranks = ranks_of_stage(job_.mesh, stage);
  std::erase_if(ranks, [&](int rank) {
    return seating_.node_of(rank) != at.node || index(rank) != index(at.rank);
  });
  return ranks;
}

std::vector<LinkShare> Wiring::copy(int stage, Tier from, Tier to, AxisSet owners) {
  const int node = place(stage).node;
  Loads loads = loads_at({node});
  for (const int rank : siblings(stage, owners)) {
    add_copy(loads, node, seating_.device_of(rank), from, to);
    add_host(loads, node, 1);
  }
  return busiest(loads);
}

std::vector<LinkShare> Wiring::host_stream(int stage, AxisSet owners) {
  const int node = place(stage).node;
  const auto members = static_cast<double>(siblings(stage, owners).size());
  Loads loads = loads_at({node});
  add_host(loads, node, members / cluster_.node.host.cpu_memory_efficiency);
  return busiest(loads);
}

int Wiring::ranks_beside(int stage, AxisSet owners) const {
  return static_cast<int>(siblings(stage, owners).size());
}

std::vector<LinkShare> Wiring::cores(int stage, const CoreUse& use) {
  const CoreProfile& cores = *cluster_.node.cores;
  const int node = place(stage).node;
  const double threads = use.ranks * use.threads;
  const double together = use.product ? cores.products_together : cores.streams_together;
  const std::size_t first = topology_.links().size() + topology_.nvme_drives().size() + 1;
  return {{link_index(node, first), threads},
          {link_index(node, first + 1), threads * together / cores.cores}};
}

std::vector<Wiring::Seats> Wiring::groups(const Group& group, int stage, bool alone) const {
  std::vector<Seats> all = groups(group, stage);
  if (!alone) return all;
  const int home = place(stage).node;
  return {*std::find_if(all.begin(), all.end(), [&](const Seats& g) { return g.is_in(home); })};
}

std::vector<LinkShare> Wiring::ring(const Group& group, int stage, bool alone) {
  const std::vector<Seats> all = groups(group, stage, alone);
  Loads loads = loads_at(nodes_of_interest(group, stage, all));
  LeafLoads leaves(cluster_, seating_, topology_);
  for (const Seats& one : all) {
    for (std::size_t i = 0; i < one.islands(); ++i) {
      const std::span<const int> ranks = one.island(i);
      add_steps(loads, ranks);
      if (one.islands() == 1) continue;
      for (const int rank : ranks) {
        add_exit(loads, rank, 1.0 / static_cast<double>(ranks.size()));
        add_entry(loads, rank, 1.0 / static_cast<double>(ranks.size()));
      }
      if (!alone) leaves.cross(ranks, one.island((i + 1) % one.islands()));
    }
  }
  return busiest(loads, leaves);
}

std::vector<LinkShare> Wiring::pairs(const Group& group, int stage, bool alone) {
  const std::vector<Seats> all = groups(group, stage, alone);
  Loads loads = loads_at(nodes_of_interest(group, stage, all));
  LeafLoads leaves(cluster_, seating_, topology_);
  for (const Seats& one : all) {
    const double part = 1.0 / static_cast<double>(one.ranks.size() - 1);
    for (std::size_t i = 0; i < one.islands(); ++i) {
      const std::span<const int> ranks = one.island(i);
      add_pairs(loads, ranks, part);
      const double away = part * static_cast<double>(one.ranks.size() - ranks.size());
      if (one.islands() == 1) continue;
      for (const int rank : ranks) {
        add_exit(loads, rank, away);
        add_entry(loads, rank, away);
      }
      for (std::size_t j = 0; j < one.islands() && !alone; ++j) {
        const std::span<const int> others = one.island(j);
        if (j != i)
          leaves.cross(ranks, others, part * static_cast<double>(ranks.size() * others.size()));
      }
    }
  }
  return busiest(loads, leaves);
}

void Wiring::add_transfer(Loads& loads, LeafLoads* leaves, int from, int to) const {
  const std::array pair{from, to};
  if (seating_.island_of(from) == seating_.island_of(to))
    return add_step(loads, from, to, step_share(from, to, peer_share(pair)));
  add_exit(loads, from, 1);
  add_entry(loads, to, 1);
  if (leaves != nullptr) leaves->cross({&pair[0], 1}, {&pair[1], 1});
}

// Ranks ascend, as members do in index order along one axis.
std::vector<LinkShare> Wiring::shift(const Group& group, int stage, bool alone) {
  const std::vector<Seats> all = groups(group, stage, alone);
  Loads loads = loads_at(nodes_of_interest(group, stage, all));
  LeafLoads leaves(cluster_, seating_, topology_);
  for (const Seats& one : all)
    for (std::size_t i = 0; i < one.ranks.size(); ++i)
      add_transfer(loads, alone ? nullptr : &leaves, one.ranks[i],
                   one.ranks[(i + 1) % one.ranks.size()]);
  return busiest(loads, leaves);
}

std::vector<LinkShare> Wiring::between(int from_stage, int to_stage) {
  Loads loads = loads_at({place(from_stage).node, place(to_stage).node});
  LeafLoads leaves(cluster_, seating_, topology_);
  const std::vector<int> senders = ranks_of_stage(job_.mesh, from_stage);
  const std::vector<int> receivers = ranks_of_stage(job_.mesh, to_stage);
  for (std::size_t i = 0; i < senders.size(); ++i)
    add_transfer(loads, &leaves, senders[i], receivers[i]);
  return busiest(loads, leaves);
}

std::vector<LinkShare> Wiring::busiest(const Loads& loads, const LeafLoads& leaves) {
  std::vector<LinkShare> shares = busiest(loads);
  for (const bool up : {true, false}) {
    const auto most = leaves.busiest(up);
    if (!most) continue;
    const auto wire = static_cast<std::size_t>(2 * most->leaf_switch) + (up ? 0 : 1);
    shares.push_back({link_index(kLeaves, wire), most->weight});
  }
  return shares;
}

std::vector<LinkShare> Wiring::busiest(const Loads& loads) {
  const std::size_t links = topology_.links().size();
  std::vector<LinkShare> shares;
  for (const auto& [node, weights] : loads) {
    std::map<KindPair, std::size_t> best;
    const auto offer = [&](std::size_t wire, KindPair kind) {
      if (weights[wire] <= 0) return;
      const auto [at, first] = best.try_emplace(kind, wire);
      if (!first && weights[wire] > weights[at->second]) at->second = wire;
    };
    for (std::size_t wire = 0; wire < links; ++wire) {
      const Link& link = topology_.links()[wire];
      offer(wire, {topology_.vertex(link.from).kind, topology_.vertex(link.to).kind});
    }
    for (std::size_t wire = links; wire + 1 < weights.size(); ++wire) offer(wire, kDriveTime);
    for (const auto& [kind, wire] : best) {
      shares.push_back({link_index(node, wire), weights[wire]});
    }
    const std::size_t host = weights.size() - 1;
    if (weights[host] > 0) shares.push_back({link_index(node, host), weights[host]});
  }
  return shares;
}

std::uint32_t Wiring::link_index(int node, std::size_t wire) {
  const auto next = static_cast<std::uint32_t>(links_.size());
  const auto [at, added] = index_.try_emplace({node, wire}, next);
  if (added) links_.push_back(describe(node, wire));
  return at->second;
}

CostLink Wiring::describe_leaf(std::size_t wire) const {
  const auto rails = static_cast<std::size_t>(rails_of(cluster_)), at = wire / 2;
  const bool up = wire % 2 == 0;
  const std::string rail = rails > 1 ? fmt::format(" rail{}", at % rails) : "";
  return {fmt::format("leaf{}{} {}", at / rails, rail, up ? "up" : "down"),
          up ? "leaf uplink" : "leaf downlink", uplink_capacity(cluster_)};
}

CostLink Wiring::describe(int node, std::size_t wire) const {
  if (node == kLeaves) return describe_leaf(wire);
  const std::string prefix = cluster_.nodes > 1 ? fmt::format("node{} ", node) : "";
  const std::size_t links = topology_.links().size(), drives = topology_.nvme_drives().size();
  if (wire == links + drives) {
    return {prefix + "dram", "host memory", cluster_.node.host.memory_bandwidth};
  }
  if (wire > links + drives) {
    constexpr double kWork = 1e12;  // ps of work per second and core
    const bool all = wire == links + drives + 1;
    return {prefix + (all ? "cores" : "caches and clocks"),
            all ? "cores" : "shared by cores",
            {all ? kWork * cluster_.node.cores->cores : kWork}};
  }
  if (wire >= links) {
    const VertexId drive = topology_.nvme_drives()[wire - links];
    return {prefix + topology_.vertex(drive).name, "NVMe drive",
            cluster_.node.topology.nvme_read.effective()};
  }
  const Link& link = topology_.links()[wire];
  const KindPair kind{topology_.vertex(link.from).kind, topology_.vertex(link.to).kind};
  return {prefix + link.name, kind_name(kind), link.effective()};
}

}  // namespace zplan
