#include "planner/cost/node_wires.h"

#include <cstdint>

namespace zplan {

double drive_waits(const Cluster& cluster) {
  constexpr double kGiga = 1e9;
  return cluster.stack.host_drives / kGiga * cluster.node.topology.nvme_read.effective().value;
}

NodeWires::NodeWires(const Cluster& cluster) : topology_(cluster.node.topology) {
  if (!cluster.network.is_ideal()) network_ = std::make_unique<const NetworkWires>(cluster);
  for (int gpu = 0; gpu < topology_.gpu_count(); ++gpu) {
    to_dram_.push_back(topology_.route(topology_.gpu(gpu), topology_.dram_of(gpu)));
    from_dram_.push_back(topology_.route(topology_.dram_of(gpu), topology_.gpu(gpu)));
    if (topology_.nics_of(gpu).empty()) continue;
    out_.push_back(topology_.routes_out(gpu));
    in_.push_back(topology_.routes_in(gpu));
  }
  for (std::size_t i = 0; i < topology_.links().size(); ++i) {
    const Link& link = topology_.links()[i];
    const LinkId id{static_cast<std::int32_t>(i)};
    if (topology_.vertex(link.to).kind == VertexKind::kNvSwitch) peer_out_.push_back(id);
    if (topology_.vertex(link.from).kind == VertexKind::kNvSwitch) peer_in_.push_back(id);
  }
}

const std::vector<NodeWires::Route>& NodeWires::out(int gpu) const {
  if (out_.empty()) topology_.routes_out(gpu);  // throws: no NIC
  return out_[static_cast<std::size_t>(gpu)];
}

const std::vector<NodeWires::Route>& NodeWires::in(int gpu) const {
  if (in_.empty()) topology_.routes_in(gpu);  // throws: no NIC
  return in_[static_cast<std::size_t>(gpu)];
}

const NodeWires::Route& NodeWires::rare_route(VertexId from, VertexId to) {
  return rare_routes_.at({from, to}, [&] { return topology_.route(from, to); });
}

}  // namespace zplan
