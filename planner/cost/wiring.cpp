#include "planner/cost/wiring.h"

#include <fmt/format.h>

#include <algorithm>

#include "planner/core/error.h"

namespace zplan {
namespace {

using KindPair = std::pair<VertexKind, VertexKind>;

std::string kind_name(KindPair ends) {
  const auto has = [&](VertexKind kind) { return ends.first == kind || ends.second == kind; };
  if (has(VertexKind::kFabric)) return "NIC";
  if (has(VertexKind::kNic)) return "PCIe of NIC";
  if (has(VertexKind::kNvSwitch)) return "GPU peer link";
  if (has(VertexKind::kGpu)) return "PCIe";
  if (has(VertexKind::kPcieSwitch)) return "PCIe uplink";
  if (has(VertexKind::kDram)) return "DRAM";
  if (has(VertexKind::kNvme)) return "NVMe";
  return "socket link";
}

}  // namespace

Wiring::Wiring(const Job& job, const Cluster& cluster)
    : job_(job), cluster_(cluster), topology_(cluster.node.topology) {
  if (job.world() > cluster.devices()) {
    throw_bad_input(fmt::format("{}: expected at least {} devices for the job, got {}",
                                cluster.name, job.world(), cluster.devices()));
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
  for (int rank = 0; rank < job_.world(); ++rank) ++all[cluster_.node_of(rank)];
  for (int stage = 0; stage < job_.pp; ++stage) {
    const Ranks ranks = groups(GroupKind::kData, stage).front();
    ClassPlace place;
    for (const auto& [node, members] : members_by_node(ranks)) {
      if (members > place.members) place = {node, 0, members, all[node]};
    }
    while (cluster_.node_of(job_.rank_of(place.dp_index, stage)) != place.node) ++place.dp_index;
    places_.push_back(place);
  }
}

std::vector<Wiring::Ranks> Wiring::groups(GroupKind group, int stage) const {
  std::vector<Ranks> result;
  if (group == GroupKind::kEmbedding) {
    for (int d = 0; d < job_.dp; ++d) {
      result.push_back({job_.rank_of(d, 0)});
      if (job_.pp > 1) result.back().push_back(job_.rank_of(d, job_.pp - 1));
    }
    return result;
  }
  const bool world = group == GroupKind::kWorld;
  result.emplace_back();
  for (int s = world ? 0 : stage; s < (world ? job_.pp : stage + 1); ++s) {
    for (int d = 0; d < job_.dp; ++d) result.back().push_back(job_.rank_of(d, s));
  }
  return result;
}

std::map<int, int> Wiring::members_by_node(const Ranks& ranks) const {
  std::map<int, int> members;
  for (const int rank : ranks) ++members[cluster_.node_of(rank)];
  return members;
}

int Wiring::nodes_spanned(GroupKind group, int stage) const {
  std::size_t widest = 0;
  for (const Ranks& ranks : groups(group, stage)) {
    widest = std::max(widest, members_by_node(ranks).size());
  }
  return static_cast<int>(widest);
}

// Nodes whose links matter to the group: those of the representatives of its classes.
std::vector<int> Wiring::class_nodes(GroupKind group, int stage) const {
  if (group == GroupKind::kData) return {place(stage).node};
  if (group == GroupKind::kEmbedding) return {place(0).node, place(job_.pp - 1).node};
  std::vector<int> nodes;
  nodes.reserve(places_.size());
  for (const ClassPlace& place : places_) nodes.push_back(place.node);
  return nodes;
}

Wiring::Loads Wiring::loads_at(const std::vector<int>& nodes) const {
  Loads loads;
  for (const int node : nodes) loads[node].assign(topology_.links().size() + 1, 0.0);
  return loads;
}

void Wiring::add(Loads& loads, int node, const Route& route, double weight) const {
  const auto at = loads.find(node);
  if (at == loads.end()) return;
  for (const LinkId link : route) at->second[static_cast<std::size_t>(link.index)] += weight;
}

void Wiring::add_host(Loads& loads, int node, double weight) const {
  if (const auto at = loads.find(node); at != loads.end()) at->second.back() += weight;
}

void Wiring::add_step(Loads& loads, int node, int from_gpu, int to_gpu) const {
  const auto from = static_cast<std::size_t>(from_gpu), to = static_cast<std::size_t>(to_gpu);
  if (has_peer_link()) {
    add(loads, node, {peer_out_[from], peer_in_[to]}, 1);
    return;
  }
  add(loads, node, to_dram_[from], 1);
  add(loads, node, from_dram_[to], 1);
  add_host(loads, node, 2);  // written once, read once
}

void Wiring::add_exit(Loads& loads, int rank, double weight) const {
  const int gpu = cluster_.device_of(rank);
  const Route& route = out_.empty() ? topology_.route_out(gpu)  // throws: no NIC
                                    : out_[static_cast<std::size_t>(gpu)];
  add(loads, cluster_.node_of(rank), route, weight);
}

void Wiring::add_entry(Loads& loads, int rank, double weight) const {
  const int gpu = cluster_.device_of(rank);
  const Route& route = in_.empty() ? topology_.route_in(gpu) : in_[static_cast<std::size_t>(gpu)];
  add(loads, cluster_.node_of(rank), route, weight);
}

std::vector<std::pair<VertexId, double>> Wiring::ends(Tier tier, int gpu) const {
  if (tier == Tier::kGpu) return {{topology_.gpu(gpu), 1.0}};
  if (tier == Tier::kCpu) return {{topology_.dram_of(gpu), 1.0}};
  const std::vector<VertexId>& drives = topology_.nvme_drives();
  if (drives.empty()) throw_bad_input(cluster_.name + ": expected NVMe drives, got none");
  std::vector<std::pair<VertexId, double>> result;
  result.reserve(drives.size());
  for (const VertexId drive : drives) {
    result.emplace_back(drive, 1.0 / static_cast<double>(drives.size()));
  }
  return result;
}

void Wiring::add_copy(Loads& loads, int node, int gpu, Tier from, Tier to) const {
  const auto g = static_cast<std::size_t>(gpu);
  if (from == Tier::kGpu && to == Tier::kCpu) return add(loads, node, to_dram_[g], 1);
  if (from == Tier::kCpu && to == Tier::kGpu) return add(loads, node, from_dram_[g], 1);
  for (const auto& [source, part] : ends(from, gpu)) {
    for (const auto& [target, share] : ends(to, gpu)) {
      add(loads, node, topology_.route(source, target), part * share);
    }
  }
}

std::vector<LinkShare> Wiring::copy(int stage, Tier from, Tier to) {
  const int node = place(stage).node;
  const double host_sides = (from == Tier::kCpu ? 1 : 0) + (to == Tier::kCpu ? 1 : 0);
  Loads loads = loads_at({node});
  const Ranks ranks = groups(GroupKind::kData, stage).front();
  for (const int rank : ranks) {
    if (cluster_.node_of(rank) != node) continue;
    add_copy(loads, node, cluster_.device_of(rank), from, to);
    add_host(loads, node, host_sides);
  }
  return busiest(loads);
}

std::vector<LinkShare> Wiring::host_stream(int stage) {
  const ClassPlace& at = place(stage);
  Loads loads = loads_at({at.node});
  add_host(loads, at.node, at.members / cluster_.node.host.cpu_memory_efficiency);
  return busiest(loads);
}

std::vector<LinkShare> Wiring::ring(GroupKind group, int stage) {
  std::vector<int> nodes = class_nodes(group, stage);
  const std::vector<Ranks> all = groups(group, stage);
  std::vector<std::map<int, int>> members;
  for (const Ranks& ranks : all) {
    members.push_back(members_by_node(ranks));
    const std::map<int, int>& counts = members.back();
    if (group == GroupKind::kEmbedding) continue;
    const auto fewer = [](const auto& a, const auto& b) { return a.second < b.second; };
    nodes.push_back(std::min_element(counts.begin(), counts.end(), fewer)->first);
  }
  Loads loads = loads_at(nodes);
  for (std::size_t g = 0; g < all.size(); ++g) {
    for (const int rank : all[g]) {
      const int node = cluster_.node_of(rank);
      const int beside = members[g].at(node);
      if (beside > 1) add_step(loads, node, cluster_.device_of(rank), cluster_.device_of(rank));
      if (members[g].size() == 1) continue;
      add_exit(loads, rank, 1.0 / beside);
      add_entry(loads, rank, 1.0 / beside);
    }
  }
  return busiest(loads);
}

std::vector<LinkShare> Wiring::between(int from_stage, int to_stage) {
  Loads loads = loads_at({place(from_stage).node, place(to_stage).node});
  for (int d = 0; d < job_.dp; ++d) {
    const int from = job_.rank_of(d, from_stage), to = job_.rank_of(d, to_stage);
    const int node = cluster_.node_of(from);
    if (node == cluster_.node_of(to)) {
      add_step(loads, node, cluster_.device_of(from), cluster_.device_of(to));
    } else {
      add_exit(loads, from, 1);
      add_entry(loads, to, 1);
    }
  }
  return busiest(loads);
}

std::vector<LinkShare> Wiring::busiest(const Loads& loads) {
  std::vector<LinkShare> shares;
  for (const auto& [node, weights] : loads) {
    std::map<KindPair, std::size_t> best;
    for (std::size_t wire = 0; wire + 1 < weights.size(); ++wire) {
      if (weights[wire] <= 0) continue;
      const Link& link = topology_.links()[wire];
      const KindPair kind{topology_.vertex(link.from).kind, topology_.vertex(link.to).kind};
      const auto [at, first] = best.try_emplace(kind, wire);
      if (!first && weights[wire] > weights[at->second]) at->second = wire;
    }
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

CostLink Wiring::describe(int node, std::size_t wire) const {
  const std::string prefix = cluster_.nodes > 1 ? fmt::format("node{} ", node) : "";
  if (wire == topology_.links().size()) {
    return {prefix + "dram", "host memory", cluster_.node.host.memory_bandwidth};
  }
  const Link& link = topology_.links()[wire];
  const KindPair kind{topology_.vertex(link.from).kind, topology_.vertex(link.to).kind};
  return {prefix + link.name, kind_name(kind), link.effective()};
}

}  // namespace zplan
