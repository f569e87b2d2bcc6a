#include "hwprofiles/topology.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/graph/adjacency_list.hpp>
#include <boost/graph/edmonds_karp_max_flow.hpp>
#include <boost/graph/filtered_graph.hpp>
#include <cmath>
#include <limits>

#include "planner/core/error.h"

namespace zplan {
namespace {

using FlowTraits = boost::adjacency_list_traits<boost::vecS, boost::vecS, boost::directedS>;
using FlowGraph = boost::adjacency_list<
    boost::vecS, boost::vecS, boost::directedS, boost::no_property,
    boost::property<
        boost::edge_capacity_t, std::int64_t,
        boost::property<boost::edge_residual_capacity_t, std::int64_t,
                        boost::property<boost::edge_reverse_t, FlowTraits::edge_descriptor>>>>;

// Traffic may pass through these; everything else only starts or ends it.
bool is_transit(VertexKind kind) {
  return kind == VertexKind::kPcieSwitch || kind == VertexKind::kNvSwitch ||
         kind == VertexKind::kSocket;
}

std::size_t index_of(VertexId id) { return static_cast<std::size_t>(id.index); }

void add_flow_edge(FlowGraph& graph, std::size_t from, std::size_t to, std::int64_t capacity) {
  const auto forth = boost::add_edge(from, to, graph).first;
  const auto back = boost::add_edge(to, from, graph).first;
  boost::put(boost::edge_capacity, graph, forth, capacity);
  boost::put(boost::edge_capacity, graph, back, 0);
  boost::put(boost::edge_reverse, graph, forth, back);
  boost::put(boost::edge_reverse, graph, back, forth);
}

}  // namespace

VertexId Topology::add_vertex(VertexKind kind, const std::string& prefix, int ordinal) {
  const bool single = kind == VertexKind::kNvSwitch || kind == VertexKind::kFabric;
  vertices_.push_back({single ? prefix : fmt::format("{}{}", prefix, ordinal), kind, ordinal});
  return {static_cast<std::int32_t>(vertices_.size()) - 1};
}

void Topology::add_links(VertexId a, VertexId b, LinkClass forth, LinkClass back) {
  const auto add = [this](VertexId from, VertexId to, const LinkClass& link) {
    links_.push_back(
        {vertex(from).name + '>' + vertex(to).name, from, to, link.capacity, link.efficiency});
  };
  add(a, b, forth);
  add(b, a, back);
}

Topology::Topology(const TopologySpec& spec) {
  if (spec.gpu_peer) nvswitch_ = add_vertex(VertexKind::kNvSwitch, "nvswitch", 0);
  if (spec.nics() > 0) fabric_ = add_vertex(VertexKind::kFabric, "fabric", 0);
  for (int socket = 0; socket < spec.sockets; ++socket) add_socket(spec, socket);
  for (int drive = 0; drive < spec.nvme_drives; ++drive) {
    nvme_.push_back(add_vertex(VertexKind::kNvme, "nvme", drive));
    const auto socket = static_cast<std::size_t>(drive % spec.sockets);
    add_links(nvme_.back(), sockets_[socket], spec.nvme_read, spec.nvme_write);
  }
}

void Topology::add_socket(const TopologySpec& spec, int socket) {
  const VertexId self = add_vertex(VertexKind::kSocket, "socket", socket);
  for (const VertexId other : sockets_) add_links(other, self, spec.socket_peer, spec.socket_peer);
  sockets_.push_back(self);
  drams_.push_back(add_vertex(VertexKind::kDram, "dram", socket));
  add_links(drams_.back(), self, spec.dram, spec.dram);
  for (int i = 0; i < spec.switches_per_socket; ++i) add_switch(spec, socket);
}

void Topology::add_switch(const TopologySpec& spec, int socket) {
  const int ordinal = switch_count_++;
  const VertexId self = add_vertex(VertexKind::kPcieSwitch, "pcie", ordinal);
  add_links(self, sockets_.back(), spec.pcie_uplink, spec.pcie_uplink);
  const auto first_nic = static_cast<int>(nics_.size());
  for (int i = 0; i < spec.nics_per_switch; ++i) {
    nics_.push_back(add_vertex(VertexKind::kNic, "nic", first_nic + i));
    add_links(self, nics_.back(), spec.nic_pcie, spec.nic_pcie);
    add_links(nics_.back(), *fabric_, spec.nic, spec.nic);
  }
  for (int i = 0; i < spec.gpus_per_switch; ++i) {
    gpus_.push_back(add_vertex(VertexKind::kGpu, "gpu", gpu_count()));
    add_links(gpus_.back(), self, spec.gpu_pcie, spec.gpu_pcie);
    if (nvswitch_) add_links(gpus_.back(), *nvswitch_, *spec.gpu_peer, *spec.gpu_peer);
    gpu_socket_.push_back(socket);
    const int before = i * spec.nics_per_switch / spec.gpus_per_switch;
    const int after = (i + 1) * spec.nics_per_switch / spec.gpus_per_switch;
    gpu_nics_.emplace_back(first_nic + before, fabric_ ? std::max(1, after - before) : 0);
  }
}

const Vertex& Topology::vertex(VertexId id) const { return vertices_.at(index_of(id)); }
const Link& Topology::link(LinkId id) const {
  return links_.at(static_cast<std::size_t>(id.index));
}

VertexId Topology::gpu(int gpu) const { return gpus_.at(static_cast<std::size_t>(gpu)); }

VertexId Topology::socket_of(int gpu) const {
  return sockets_[static_cast<std::size_t>(gpu_socket_.at(static_cast<std::size_t>(gpu)))];
}

VertexId Topology::dram_of(int gpu) const {
  return drams_[static_cast<std::size_t>(gpu_socket_.at(static_cast<std::size_t>(gpu)))];
}

std::span<const VertexId> Topology::nics_of(int gpu) const {
  const auto [first, count] = gpu_nics_.at(static_cast<std::size_t>(gpu));
  return std::span(nics_).subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(count));
}

std::optional<VertexId> Topology::find(std::string_view name) const {
  for (std::size_t i = 0; i < vertices_.size(); ++i) {
    if (vertices_[i].name == name) return VertexId{static_cast<std::int32_t>(i)};
  }
  return std::nullopt;
}

std::optional<LinkId> Topology::link_between(VertexId from, VertexId to) const {
  for (std::size_t i = 0; i < links_.size(); ++i) {
    if (links_[i].from == from && links_[i].to == to) return LinkId{static_cast<std::int32_t>(i)};
  }
  return std::nullopt;
}

// By relaxing every link until none is shorter: a node has few, and what a graph library allocates
// for them takes longer than that.
std::vector<LinkId> Topology::route(VertexId from, VertexId to) const {
  constexpr double kFar = std::numeric_limits<double>::infinity();
  std::vector<double> distance(vertices_.size(), kFar);
  std::vector<LinkId> last(vertices_.size());
  distance[index_of(from)] = 0;
  for (bool changed = true; changed;) {
    changed = false;
    for (std::size_t i = 0; i < links_.size(); ++i) {
      const Link& link = links_[i];
      const double before = distance[index_of(link.from)];
      if (before == kFar) continue;  // and spares most links the rest
      if (link.from != from && !is_transit(vertices_[index_of(link.from)].kind)) continue;
      const double there = before + 1 / link.effective().value;
      if (!(there < distance[index_of(link.to)])) continue;
      distance[index_of(link.to)] = there;
      last[index_of(link.to)] = {static_cast<std::int32_t>(i)};
      changed = true;
    }
  }
  if (distance[index_of(to)] == kFar)
    throw_bad_input(fmt::format("topology: expected a path from {} to {}, got none",
                                vertex(from).name, vertex(to).name));
  std::vector<LinkId> path;
  for (VertexId at = to; at != from; at = link(path.back()).from)
    path.push_back(last[index_of(at)]);
  std::reverse(path.begin(), path.end());
  return path;
}

std::span<const VertexId> Topology::nics_or_fail(int gpu) const {
  const std::span<const VertexId> nics = nics_of(gpu);
  if (nics.empty())
    throw_bad_input("topology: expected a network interface, got a node without any");
  return nics;
}

std::vector<std::vector<LinkId>> Topology::routes_out(int gpu) const {
  std::vector<std::vector<LinkId>> paths;
  for (const VertexId nic : nics_or_fail(gpu)) {
    paths.push_back(route(this->gpu(gpu), nic));
    paths.back().push_back(*link_between(nic, *fabric_));
  }
  return paths;
}

std::vector<std::vector<LinkId>> Topology::routes_in(int gpu) const {
  std::vector<std::vector<LinkId>> paths;
  for (const VertexId nic : nics_or_fail(gpu)) {
    paths.push_back({*link_between(*fabric_, nic)});
    for (const LinkId link : route(nic, this->gpu(gpu))) paths.back().push_back(link);
  }
  return paths;
}

BytesPerSecond Topology::max_flow(std::span<const VertexId> from,
                                  std::span<const VertexId> to) const {
  const std::size_t source = vertices_.size(), sink = source + 1;
  FlowGraph graph(vertices_.size() + 2);
  std::int64_t unlimited = 0;
  const auto contains = [](std::span<const VertexId> set, VertexId id) {
    return std::find(set.begin(), set.end(), id) != set.end();
  };
  for (const Link& link : links_) {
    const bool leaves = is_transit(vertex(link.from).kind) || contains(from, link.from);
    const bool enters = is_transit(vertex(link.to).kind) || contains(to, link.to);
    if (!leaves || !enters) continue;
    const auto capacity = static_cast<std::int64_t>(std::llround(link.effective().value));
    add_flow_edge(graph, index_of(link.from), index_of(link.to), capacity);
    unlimited += capacity;
  }
  for (const VertexId id : from) add_flow_edge(graph, source, index_of(id), unlimited);
  for (const VertexId id : to) add_flow_edge(graph, index_of(id), sink, unlimited);
  return {static_cast<double>(boost::edmonds_karp_max_flow(graph, source, sink))};
}

BytesPerSecond Topology::bisection() const {
  const std::span<const VertexId> all(gpus_);
  return max_flow(all.first(all.size() / 2), all.subspan(all.size() / 2));
}

}  // namespace zplan
