#include "hwprofiles/cluster_servers.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <utility>
#include <vector>

#include "hwprofiles/cluster_name.h"
#include "planner/core/error.h"
#include "planner/core/text.h"

namespace zplan {
namespace {

// [assumed] A server without peer links holds so many GPUs at most, unless it is built for one.
constexpr int kUsualSlots = 8;

constexpr double kGibibyte = 1 << 30;

}  // namespace

std::string times(int count, std::string_view what) { return fmt::format("{}x{}", count, what); }

Servers::Servers(const SpelledDevice& device, std::string kind)
    : device_(device), kind_(std::move(kind)), cluster_(load_cluster(device.server)) {}

int Servers::size() const {
  const int own = cluster_.node.devices_per_node;
  return has_links() || own == 1 ? own : std::max(own, kUsualSlots);
}

Wish Servers::settled(Wish wish, std::string_view typed) const {
  for (const std::optional<int>& count : {wish.nodes, wish.per_node, wish.total})
    if (count && *count < 1)
      throw_bad_input(
          fmt::format("cluster {}: expected counts from 1, got {}", in_quotes(typed), *count));
  if (wish.total) split(wish, typed);
  if (!wish.per_node) wish.per_node = size();
  wish.nodes = node_count(typed, fmt::format("{}", wish.nodes.value_or(1)));
  if (!holds(*wish.per_node)) fail_size(wish, typed);
  if (is_rack()) check_rack(wish, typed);
  return wish;
}

// Racks are whole, and so are the nodes that meet in one.
void Servers::check_rack(const Wish& wish, std::string_view typed) const {
  const int nodes = *wish.nodes, of_rack = cluster_.nodes;
  if (nodes > 1 && !is_whole(*wish.per_node)) fail_size(wish, typed);
  if (nodes <= of_rack || nodes % of_rack == 0) return;
  throw_bad_input(fmt::format(
      "cluster {}: expected at most {} GPUs, a rack of {}, or whole racks, got {}; type "
      "{} or {}",
      in_quotes(typed), rack_gpus(), device_.server, nodes * *wish.per_node,
      times(nodes / of_rack * rack_gpus(), kind_),
      times((nodes / of_rack + 1) * rack_gpus(), kind_)));
}

void Servers::fail_size(const Wish& wish, std::string_view typed) const {
  const bool is_of_rack = is_rack() && *wish.nodes > 1;
  const int own = cluster_.node.devices_per_node;
  throw_bad_input(fmt::format(
      "cluster {}: expected {} GPUs of a node, as in {}, got {}; type {}", in_quotes(typed),
      is_of_rack ? fmt::format("{}", own) : sizes(), cluster_.node.name, *wish.per_node,
      times(*wish.nodes, times(is_of_rack ? own : nearest_size(*wish.per_node), kind_))));
}

std::string Servers::name_of(const Wish& wish) const {
  const int nodes = *wish.nodes, per_node = *wish.per_node;
  if (is_rack() && nodes > 1)
    return nodes == cluster_.nodes ? device_.server
                                   : fmt::format("{}{{nodes={}}}", device_.server, nodes);
  const std::string& node = cluster_.node.name;
  const std::string counted = nodes == 1 ? node : fmt::format("{}x{}", node, nodes);
  return is_whole(per_node) ? counted : fmt::format("{}{{gpus_per_node={}}}", counted, per_node);
}

std::string Servers::words_of(const Wish& wish) const {
  const int nodes = *wish.nodes, per_node = *wish.per_node;
  std::string out = nodes > 1       ? fmt::format("{} nodes of {} ", nodes, per_node)
                    : per_node == 1 ? "1 "
                                    : fmt::format("a node of {} ", per_node);
  out += fmt::format("{} as in {}", device_.name, is_rack() ? device_.server : cluster_.node.name);
  if (const std::string host = assumed_host(); !host.empty()) out += fmt::format(" ({})", host);
  std::vector<std::string> links;
  if (per_node > 1 || is_rack()) links.push_back(within());
  if (nodes > 1 && !is_rack()) links.push_back(between(per_node));
  return links.empty() ? out : fmt::format("{}: {}", out, joined(links, ", "));
}

bool Servers::is_fixed() const {
  return cluster_.node.topology.peer_shape.kind == PeerKind::kTorus ||
         cluster_.node.cores != nullptr;
}

bool Servers::holds(int gpus) const {
  const bool is_part = !is_fixed() && gpus <= size();
  return is_whole(gpus) || is_part;
}

bool Servers::is_usual(int gpus) const {
  return holds(gpus) &&
         (std::has_single_bit(static_cast<unsigned>(gpus)) || gpus == size() || is_whole(gpus));
}

int Servers::nearest_size(int gpus) const {
  return is_fixed() ? cluster_.node.devices_per_node : std::min(std::max(gpus, 1), size());
}

std::string Servers::sizes() const {
  return is_fixed() ? fmt::format("{}", cluster_.node.devices_per_node)
                    : fmt::format("1 to {}", size());
}

void Servers::split(Wish& wish, std::string_view typed) const {
  const int total = *wish.total, most = size();
  if (total <= most && is_usual(total)) {
    wish.per_node = total;
  } else if (total > most && total % most == 0) {
    wish.nodes = total / most;
    wish.per_node = most;
  } else {
    fail_count(total, typed);
  }
}

void Servers::fail_count(int total, std::string_view typed) const {
  int below = std::min(total, size()), above = size();
  if (total > size()) {
    below = total / size() * size();
    above = below + size();
  } else {
    while (below > 0 && !is_usual(below)) --below;
    above = total;
    while (!is_usual(above)) ++above;
  }
  const std::string possible =
      below > 0 ? fmt::format("{} or {}", times(below, kind_), times(above, kind_))
                : times(above, kind_);
  throw_bad_input(fmt::format("cluster {}: expected {}, for a node as in {} holds {}, got {}",
                              in_quotes(typed), possible, cluster_.node.name, size(), total));
}

std::string Servers::assumed_host() const {
  const HwProfile& node = cluster_.node;
  const auto memory = std::ranges::find(node.sources, "/host/memory", &ValueSource::pointer);
  if (memory == node.sources.end() || memory->source != "assumed") return "";
  const double gibibytes = static_cast<double>(node.host.memory.value) / kGibibyte;
  std::string out = fmt::format("{:.4g} GiB of CPU memory", gibibytes);
  if (const int drives = node.nvme.drives; drives > 0)
    out += fmt::format(" and {} NVMe drive{}", drives, drives == 1 ? "" : "s");
  return out + ", assumed";
}

std::string Servers::within() const {
  const TopologySpec& wires = cluster_.node.topology;
  constexpr double kGiga = 1e9;
  const std::string_view where = is_rack() ? "within the rack" : "within";
  return wires.gpu_peer ? fmt::format("peer links of {:.3g} GB/s {}",
                                      wires.gpu_peer->capacity.value / kGiga, where)
                        : fmt::format("PCIe {}", where);
}

std::string Servers::between(int per_node) const {
  constexpr double kGigabit = 1e9 / 8;
  Cluster cluster = cluster_;
  if (!is_whole(per_node))
    cluster = load_cluster(name_of({.nodes = 1, .per_node = per_node, .total = {}}));
  const TopologySpec& wires = cluster.node.topology;
  return fmt::format("{} x {:.4g} Gbit/s between", wires.nics(),
                     wires.nic.capacity.value / kGigabit);
}

}  // namespace zplan
