#include <fmt/format.h>

#include "hwprofiles/cluster_file.h"
#include "hwprofiles/fabric.h"
#include "hwprofiles/hw_profile.h"
#include "hwprofiles/quantities.h"
#include "planner/cli/commands.h"
#include "planner/cli/frame/table.h"
#include "planner/cli/frame/words.h"
#include "planner/core/quantity.h"
#include "planner/core/text.h"

namespace zplan {
namespace {

Sheet device_sheet(const DeviceProfile& device) {
  Sheet peaks;
  for (const auto& [format, peak] : device.peaks) peaks.fact(format, peak);
  return {{"name", device.name},
          {"memory_bytes", device.memory},
          {"reserve_bytes", device.reserve()},
          {"memory_bytes_per_s", device.memory_bandwidth},
          {"peak_flop_per_s", peaks},
          {"kernel_set", device.kernel_set}};
}

Value sources(const std::vector<ValueSource>& values) {
  return each(values, [](const ValueSource& s) {
    return Sheet{{"pointer", s.pointer}, {"value", s.value}, {"source", s.source}, {"ref", s.ref}};
  });
}

// Between the halves of the nodes.
BytesPerSecond bisection(const Cluster& cluster) {
  return Fabric(cluster).folded().bisection(cluster.node.topology.nic.effective());
}

// Returns a line, or nothing where the ports alone decide.
std::string bisection_words(const Cluster& cluster) {
  const int half = cluster.nodes / 2;
  if (cluster.network.is_ideal() || half == 0) return "";
  const TopologySpec& topology = cluster.node.topology;
  const BytesPerSecond ports = topology.nic.effective() * (1.0 * half * topology.nics());
  return fmt::format("The first {} can send {} to the others; their ports send {}.\n",
                     count_of(half, "node"), format_rate(bisection(cluster)), format_rate(ports));
}

Sheet network_sheet(const Cluster& cluster) {
  const NetworkSpec& network = cluster.network;
  Sheet out{{"kind", network.rules          ? "graph"
                     : network.has_leaves() ? "leaf_spine"
                                            : "full_bisection"}};
  if (network.has_leaves())
    out.facts({{"nodes_per_leaf", network.nodes_per_leaf},
               {"oversubscription", network.oversubscription},
               {"rails", network.rails},
               {"allocation", network.scattered ? "scattered" : "in_order"}});
  if (!network.is_ideal()) out.fact("bisection_bytes_per_s", bisection(cluster));
  out.facts({{"fast_link_domain", cluster.domain()}, {"sources", sources(cluster.sources)}});
  return out;
}

// What --set may change, and how it is.
Table quantities_table(const Cluster& cluster) {
  Table table({"quantity: --set", "words: has", "meaning"});
  for (const HardwareQuantity& quantity : hardware_quantities()) {
    const std::optional<double> value = quantity.get(cluster);
    if (!value) continue;
    table.row({{"quantity", quantity.name},
               {"value", *value},
               {"words", only_words(right(quantity_words(quantity, *value)))},
               {"meaning", quantity.meaning}});
  }
  return table;
}

Sheet cluster_sheet(const Cluster& cluster) {
  const HwProfile& node = cluster.node;
  Sheet out{{"name", cluster.name},
            {"aliases", node.aliases},
            {"description", node.description},
            {"nodes", cluster.nodes},
            {"devices_per_node", node.devices_per_node},
            {"devices", cluster.devices()},
            {"network", network_sheet(cluster)},
            {"device", device_sheet(node.device)},
            {"host", Sheet{{"memory_bytes", node.host.memory},
                           {"reserve_bytes", node.host.reserve},
                           {"memory_bytes_per_s", node.host.memory_bandwidth},
                           {"cpu_cores", node.host.cpu_cores}}},
            {"nvme", Sheet{{"drives", node.nvme.drives},
                           {"capacity_bytes", node.nvme.capacity},
                           {"read_bytes_per_s", node.nvme.read_bandwidth()},
                           {"write_bytes_per_s", node.nvme.write_bandwidth()}}},
            {"profile_hash", node.hash},
            {"quantities", quantities_table(cluster)},
            {"sources", sources(node.sources)}};
  if (!cluster.groups.empty())
    out.fact("groups", each(cluster.groups, [](const NodeGroup& group) {
               return Sheet{{"node", group.node},
                            {"nodes", group.nodes},
                            {"devices_per_node", group.devices_per_node}};
             }));
  return out;
}

// Of each node a cluster of one, and the clusters that have names.
Sheet clusters_sheet() {
  const std::vector<Cluster> named = cluster_catalogue();
  std::vector<Cluster> clusters;
  Table table({"node", "GPU memory", "CPU memory", "NVMe", "devices", "device"});
  for (const HwProfile& node : node_catalogue()) {
    clusters.push_back({.name = node.name, .node = node, .stack = {}});
    table.words_row({node.name, node.device.memory, node.host.memory,
                     node.nvme.drives > 0 ? Value(node.nvme.capacity) : "-", node.devices_per_node,
                     node.device.name});
  }
  clusters.insert(clusters.end(), named.begin(), named.end());
  Sheet out("zplan.clusters/1");
  out.fact("clusters", each(clusters, cluster_sheet));
  out.print(table.text() + "\n");
  out.print(paragraph(
      "NAMExCOUNT is a cluster (dgx2x32), 16xH100 so many GPUs of the usual node; zplan clusters "
      "NAME shows its other names and the sources of its numbers. GPU memory per device, usable; "
      "CPU memory and NVMe per node."));
  out.print("\n");
  for (const Cluster& cluster : named)
    out.print(paragraph(fmt::format("{}: {}", cluster.name, cluster_words(cluster))));
  return out;
}

Sheet detail_sheet(const Cluster& cluster) {
  const HwProfile& node = cluster.node;
  Table table({"value of a node", "", "source", "reference"});
  for (const ValueSource& s : cluster.sources)
    table.words_row({"cluster " + s.pointer, right(s.value), s.source, s.ref});
  for (const ValueSource& s : node.sources)
    table.words_row({s.pointer, right(s.value), s.source, s.ref});
  Sheet out("zplan.clusters/1");
  out.fact("clusters", each(std::vector{cluster}, cluster_sheet));
  for (const std::string& one : cluster.understood) out.print(one + "\n");
  if (!node.aliases.empty())
    out.print(fmt::format("{} is also {}\n", node.name, joined(node.aliases, ", ")));
  out.print(fmt::format("{}: {}\n{}\n{}\n", cluster.name, cluster_words(cluster), node.description,
                        bisection_words(cluster)) +
            table.text() + "\n" + quantities_table(cluster).text());
  return out;
}

}  // namespace

ExitCode execute(const ClustersCommand& command) {
  write_answer(
      command.name.empty() ? clusters_sheet() : detail_sheet(load_any_cluster(command.name)),
      command.json);
  return ExitCode::kOk;
}

}  // namespace zplan
