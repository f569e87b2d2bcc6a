#include "hwprofiles/topology.h"

#include <fmt/format.h>

#include <algorithm>

#include "planner/core/error.h"

namespace zplan {

VertexId Topology::add_vertex(VertexKind kind, const std::string& prefix, int ordinal) {
  const bool single = kind == VertexKind::kNvSwitch || kind == VertexKind::kFabric;
  return graph_.add_vertex(single ? prefix : fmt::format("{}{}", prefix, ordinal), kind, ordinal);
}

void Topology::add_links(VertexId a, VertexId b, LinkClass forth, LinkClass back) {
  const auto add = [this](VertexId from, VertexId to, const LinkClass& link) {
    graph_.add_link(from, to, link, vertex(from).name + '>' + vertex(to).name);
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
    paths.back().push_back(*graph_.link_between(nic, *fabric_));
  }
  return paths;
}

std::vector<std::vector<LinkId>> Topology::routes_in(int gpu) const {
  std::vector<std::vector<LinkId>> paths;
  for (const VertexId nic : nics_or_fail(gpu)) {
    paths.push_back({*graph_.link_between(*fabric_, nic)});
    for (const LinkId link : route(nic, this->gpu(gpu))) paths.back().push_back(link);
  }
  return paths;
}

BytesPerSecond Topology::bisection() const {
  // All that a GPU has out, more than it can use.
  const auto taps = [this](std::size_t begin, std::size_t end) {
    std::vector<Tap> taps;
    for (std::size_t i = begin; i < end; ++i) {
      Tap& tap = taps.emplace_back(Tap{gpus_[i], {}});
      for (const LinkId link : graph_.links_of(gpus_[i]))
        tap.most.value += this->link(link).effective().value;
    }
    return taps;
  };
  return graph_.max_flow(taps(0, gpus_.size() / 2), taps(gpus_.size() / 2, gpus_.size()));
}

}  // namespace zplan
