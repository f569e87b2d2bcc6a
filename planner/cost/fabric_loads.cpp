#include "planner/cost/fabric_loads.h"

#include <algorithm>
#include <set>

namespace zplan {
namespace {

constexpr double kRounding = 1e-9;  // of sums of equal parts

}  // namespace

FabricLoads::FabricLoads(const NodeWires& wires, const Seating& seating)
    : wires_(wires), network_(wires.network()), seating_(seating) {
  if (network_ != nullptr) loads_.assign(network_->fabric.graph().links().size(), 0.0);
}

// Returns the parts of the ranks; those over one port are one.
FabricLoads::Parts FabricLoads::parts(std::span<const int> ranks) const {
  Parts parts;
  for (const int rank : ranks) {
    const std::span<const VertexId> nics = wires_.topology().nics_of(seating_.device_of(rank));
    for (const VertexId nic : nics) {
      const int port = wires_.topology().vertex(nic).ordinal;
      const int node = seating_.node_of(rank);
      const VertexId at = network_->fabric.switch_of(node, port);
      const double share = 1.0 / static_cast<double>(ranks.size() * nics.size());
      const auto known = std::find_if(parts.begin(), parts.end(), [&](const Part& part) {
        return part.at == at && part.node == node && part.port == port;
      });
      if (known == parts.end()) {
        parts.push_back({at, node, port, share});
      } else {
        known->share += share;
      }
    }
  }
  return parts;
}

// Parts that meet send each other what both have, and keep the rest.
void FabricLoads::match(Parts& from, Parts& to, double bytes,
                        bool (*meet)(const Part&, const Part&)) {
  for (Part& out : from)
    for (Part& in : to) {
      if (!meet(out, in)) continue;
      const double both = std::min(out.share, in.share);
      if (both <= kRounding) continue;
      out.share -= both;
      in.share -= both;
      add(out, in, both * bytes);
    }
}

void FabricLoads::add(const Part& from, const Part& to, double bytes) {
  const Fabric& fabric = network_->fabric;
  const VertexId at = fabric.meet(from.at, to.at) ? from.at : fabric.switch_of(from.node, to.port);
  const auto [near, far] = network_->routes.add_only_ways(at, to.at, bytes, loads_);
  if (near != far) flows_[{near, far}] += bytes;
}

void FabricLoads::cross(std::span<const int> from, std::span<const int> to, double bytes) {
  if (network_ == nullptr) return;
  for (const auto& [ports, left] : cross(parts(from), parts(to), bytes))
    if (!meet(ports.from, ports.to)) changes_[ports] += left;
}

// Returns what leaves by the port that it arrives by and not by that of its senders.
FabricLoads::Changes FabricLoads::cross(Parts out, Parts in, double bytes) {
  match(out, in, bytes, [](const Part& a, const Part& b) { return a.at == b.at; });
  match(out, in, bytes, [](const Part& a, const Part& b) { return a.port == b.port; });
  double left = 0;
  for (const Part& part : in) left += part.share;
  Changes changes;
  for (const Part& a : out)
    for (const Part& b : in) {
      if (a.share <= kRounding || b.share <= kRounding) continue;
      const double flow = a.share * b.share / left * bytes;
      add(a, b, flow);
      changes[{a.node, a.port, b.port}] += flow;
    }
  return changes;
}

void FabricLoads::ring(const GroupSeats& group) {
  if (network_ == nullptr || group.islands() == 1 || ring_of_own_links(group)) return;
  for (std::size_t i = 0; i < group.islands(); ++i)
    cross(group.island(i), group.island((i + 1) % group.islands()));
}

void FabricLoads::pairs(const GroupSeats& group, double part) {
  if (network_ == nullptr || group.islands() == 1) return;
  std::vector<Parts> of_islands;
  for (std::size_t i = 0; i < group.islands(); ++i) of_islands.push_back(parts(group.island(i)));
  for (std::size_t i = 0; i < group.islands(); ++i)
    for (std::size_t j = 0; j < group.islands(); ++j) {
      const std::size_t meetings = group.island(i).size() * group.island(j).size();
      if (i != j) cross(of_islands[i], of_islands[j], part * static_cast<double>(meetings));
    }
  change_ports(of_islands, group, part);
}

// Members whose ports cannot reach those of others pass on to members of their node whose ports do.
void FabricLoads::change_ports(const std::vector<Parts>& of_islands, const GroupSeats& group,
                               double part) {
  const auto members = [&](std::size_t i) { return static_cast<double>(group.island(i).size()); };
  std::map<int, double> taken;  // members that take in by a port
  for (std::size_t i = 0; i < of_islands.size(); ++i)
    for (const Part& one : of_islands[i]) taken[one.port] += one.share * members(i);
  for (std::size_t i = 0; i < of_islands.size(); ++i) {
    std::map<int, double> others = taken;
    for (const Part& own : of_islands[i]) others[own.port] -= own.share * members(i);
    for (const Part& own : of_islands[i])
      for (const auto& [port, count] : others)
        if (!meet(own.port, port))
          changes_[{own.node, own.port, port}] += part * own.share * members(i) * count;
  }
}

// Returns true if the ports of all nodes reach each other; those of one number do (fabric.h).
bool FabricLoads::meet(int port, int other) const {
  const Fabric& fabric = network_->fabric;
  return fabric.meet(fabric.switch_of(0, port), fabric.switch_of(0, other));
}

bool FabricLoads::ring_of_own_links(const GroupSeats& group) {
  const Fabric& fabric = network_->fabric;
  if (!fabric.is_direct()) return false;
  std::set<VertexId> members;
  for (std::size_t i = 0; i < group.islands(); ++i)
    members.insert(fabric.switch_behind(seating_.node_of(group.island(i).front()), 0));
  if (members.size() != group.islands()) return false;
  const BytesPerSecond cut = network_->narrowest_cut({members.begin(), members.end()});
  if (cut.value == 0) return false;
  for (const VertexId at : members)
    for (const LinkId id : fabric.graph().links_of(at)) {
      const Link& link = fabric.graph().link(id);
      if (members.contains(link.to)) loads_[index_of(id)] += link.capacity.value / cut.value;
    }
  for (std::size_t i = 0; i < group.islands(); ++i) add_weak_ports(group.island(i));
  return true;
}

// Ranks send and take in 1 together; this adds what goes over ports of theirs that are weak.
void FabricLoads::add_weak_ports(std::span<const int> ranks) {
  for (const Part& part : parts(ranks)) {
    const VertexId behind = network_->fabric.switch_behind(part.node, part.port);
    if (behind == part.at) continue;
    network_->routes.add_only_ways(part.at, behind, part.share, loads_);
    network_->routes.add_only_ways(behind, part.at, part.share, loads_);
  }
}

std::vector<double> FabricLoads::all_loads() const {
  std::vector<double> loads = loads_;
  for (const auto& [ends, bytes] : flows_)
    network_->routes.add(ends.first, ends.second, bytes, loads);
  return loads;
}

std::vector<FabricLoads::Load> FabricLoads::busiest() const {
  if (network_ == nullptr) return {};
  const Fabric& fabric = network_->fabric;
  const std::vector<double> loads = all_loads();
  const auto slowness = [&](LinkId id) {
    return loads[index_of(id)] / fabric.graph().link(id).capacity.value;
  };
  std::map<std::size_t, LinkId> most;  // by kind
  for (std::size_t i = 0; i < loads.size(); ++i) {
    if (loads[i] <= 0) continue;
    const LinkId id{static_cast<std::int32_t>(i)};
    const auto [at, added] = most.try_emplace(fabric.kind_number(id), id);
    if (!added && slowness(id) > slowness(at->second) * (1 + kRounding)) at->second = id;
  }
  std::vector<Load> busiest;
  for (const auto& [kind, id] : most) busiest.push_back({id, loads[index_of(id)]});
  return busiest;
}

}  // namespace zplan
