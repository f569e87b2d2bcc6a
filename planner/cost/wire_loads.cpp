#include "planner/cost/wire_loads.h"

#include <array>
#include <utility>

#include "planner/core/error.h"

namespace zplan {
namespace {

using KindPair = std::pair<VertexKind, VertexKind>;
constexpr KindPair kDriveTime{VertexKind::kNvme, VertexKind::kNvme};

}  // namespace

WireLoads::WireLoads(const Cluster& cluster, NodeWires& wires, const Seats& seats,
                     const std::vector<int>& nodes)
    : cluster_(cluster), wires_(wires), seats_(seats), seating_(seats.seating()) {
  for (const int node : nodes) loads_[node].assign(wires.host_memory() + 1, 0.0);
}

void WireLoads::add(int node, std::span<const LinkId> route, double weight) {
  const auto at = loads_.find(node);
  if (at == loads_.end()) return;
  for (const LinkId link : route) at->second[index_of(link)] += weight;
}

void WireLoads::add_spread(int node, std::span<const NodeWires::Route> routes, double weight) {
  for (const NodeWires::Route& route : routes)
    add(node, route, weight / static_cast<double>(routes.size()));
}

void WireLoads::add_host(int node, double weight) {
  if (const auto at = loads_.find(node); at != loads_.end()) at->second.back() += weight;
}

// `share`: of the peer links' rate.
void WireLoads::add_step(int from, int to, double share, double bytes) {
  const int sender = seating_.device_of(from), receiver = seating_.device_of(to);
  const int node = seating_.node_of(from);
  if (share > 0) {
    const LinkId out = wires_.peer_out(sender), in = wires_.peer_in(receiver);
    add(node, {&out, 1}, bytes / share);
    add(seating_.node_of(to), {&in, 1}, bytes / share);
    return;
  }
  add(node, wires_.to_dram(sender), bytes);
  add(node, wires_.from_dram(receiver), bytes);
  add_host(node, 2 * bytes);  // written once, read once
}

void WireLoads::add_ring(std::span<const int> ranks) {
  if (ranks.size() == 1) return;
  const double share = seats_.peer_share(ranks);
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    const int to = ranks[(i + 1) % ranks.size()];
    add_step(ranks[i], to, seats_.step_share(ranks[i], to, share), 1);
  }
}

void WireLoads::add_pairs(std::span<const int> ranks, double bytes) {
  if (ranks.size() == 1) return;
  const double share = seats_.peer_share(ranks);
  for (const int from : ranks)
    for (const int to : ranks)
      if (from != to) add_step(from, to, seats_.step_share(from, to, share), bytes);
}

void WireLoads::add_transfer(int from, int to, FabricLoads* fabric) {
  const std::array pair{from, to};
  if (seating_.island_of(from) == seating_.island_of(to))
    return add_step(from, to, seats_.step_share(from, to, seats_.peer_share(pair)), 1);
  add_exit(from, 1);
  add_entry(to, 1);
  if (fabric != nullptr) fabric->cross({&pair[0], 1}, {&pair[1], 1});
}

void WireLoads::add_border(std::span<const int> ranks, double weight) {
  for (const int rank : ranks) {
    add_exit(rank, weight);
    add_entry(rank, weight);
  }
}

void WireLoads::add_exit(int rank, double weight) {
  add_spread(seating_.node_of(rank), wires_.out(seating_.device_of(rank)), weight);
}

void WireLoads::add_entry(int rank, double weight) {
  add_spread(seating_.node_of(rank), wires_.in(seating_.device_of(rank)), weight);
}

void WireLoads::change_port(int node, int from, int to, double bytes) {
  if (!loads_.contains(node)) return;
  const TopologySpec& spec = cluster_.node.topology;
  const std::vector<int> senders = devices_at(from);
  for (const int sender : senders) {
    const auto share_to = [&](int other) {
      return spec.gpu_peer ? ring_share(spec.peer_shape, std::array{sender, other}) : 0;
    };
    std::vector<int> passing = devices_at(to);
    std::erase_if(passing, [&](int other) { return share_to(other) == 0; });
    const double sent = bytes / static_cast<double>(senders.size());
    add_exit(node, sender, from, -sent);
    if (passing.empty()) add_exit(node, sender, to, sent);
    for (const int other : passing) {
      const double part = sent / static_cast<double>(passing.size());
      const LinkId out = wires_.peer_out(sender), in = wires_.peer_in(other);
      add(node, {&out, 1}, part / share_to(other));
      add(node, {&in, 1}, part / share_to(other));
      add_exit(node, other, to, part);
    }
  }
}

// Returns the devices of a node that ranks have and that the port belongs to.
std::vector<int> WireLoads::devices_at(int port) const {
  const Topology& topology = wires_.topology();
  std::vector<int> devices;
  for (int rank = 0; rank < seating_.per_node(); ++rank)
    for (const VertexId nic : topology.nics_of(seating_.device_of(rank)))
      if (topology.vertex(nic).ordinal == port) devices.push_back(seating_.device_of(rank));
  return devices;
}

// Adds what one device sends to the network over any port of its node.
void WireLoads::add_exit(int node, int device, int port, double weight) {
  const Topology& topology = wires_.topology();
  const VertexId nic = topology.nics()[static_cast<std::size_t>(port)];
  add(node, wires_.rare_route(topology.gpu(device), nic), weight);
  const LinkId out = *topology.graph().link_between(nic, *topology.fabric());
  add(node, {&out, 1}, weight);
}

void WireLoads::add_drives(int rank, bool reads) {
  const Topology& topology = wires_.topology();
  const std::vector<VertexId>& drives = topology.nvme_drives();
  if (drives.empty()) throw_bad_input(cluster_.name + ": expected NVMe drives, got none");
  const int node = seating_.node_of(rank);
  const VertexId dram = topology.dram_of(seating_.device_of(rank));
  const double part = 1.0 / static_cast<double>(drives.size());
  const TopologySpec& spec = cluster_.node.topology;
  const double slower = spec.nvme_read.effective().value / spec.nvme_write.effective().value;
  const double waits = drive_waits(cluster_);
  const double beside = waits > 0 ? 0 : cluster_.node.nvme.read_beside_write;
  const double taken = slower * (1 - beside);
  for (std::size_t i = 0; i < drives.size(); ++i) {
    add(node, reads ? wires_.rare_route(drives[i], dram) : wires_.rare_route(dram, drives[i]),
        part);
    if (const auto at = loads_.find(node); at != loads_.end())
      at->second[wires_.drive(i)] += (reads ? part : part * taken) + waits;
  }
}

void WireLoads::add_copy(int rank, Tier from, Tier to) {
  const int node = seating_.node_of(rank), gpu = seating_.device_of(rank);
  if (from == Tier::kGpu) add(node, wires_.to_dram(gpu), 1);
  if (to == Tier::kGpu) add(node, wires_.from_dram(gpu), 1);
  if (from == Tier::kNvme) add_drives(rank, true);
  if (to == Tier::kNvme) add_drives(rank, false);
  add_host(node, 1);
}

std::vector<WireShare> WireLoads::busiest() const {
  std::vector<WireShare> shares;
  for (const auto& [node, weights] : loads_) take_busiest(node, weights, shares);
  return shares;
}

void WireLoads::take_busiest(int node, const std::vector<double>& weights,
                             std::vector<WireShare>& shares) const {
  const Topology& topology = wires_.topology();
  std::map<KindPair, std::size_t> best;
  const auto offer = [&](std::size_t wire, KindPair kind) {
    if (weights[wire] <= 0) return;
    const auto [at, first] = best.try_emplace(kind, wire);
    if (!first && weights[wire] > weights[at->second]) at->second = wire;
  };
  for (std::size_t wire = 0; wire < wires_.links(); ++wire) {
    const Link& link = topology.links()[wire];
    offer(wire, {topology.vertex(link.from).kind, topology.vertex(link.to).kind});
  }
  for (std::size_t wire = wires_.links(); wire < wires_.host_memory(); ++wire)
    offer(wire, kDriveTime);
  for (const auto& [kind, wire] : best) shares.push_back({{node, wire}, weights[wire]});
  const std::size_t host = wires_.host_memory();
  if (weights[host] > 0) shares.push_back({{node, host}, weights[host]});
}

}  // namespace zplan
