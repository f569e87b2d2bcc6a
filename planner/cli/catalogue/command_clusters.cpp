#include <fmt/format.h>

#include "hwprofiles/cluster_file.h"
#include "hwprofiles/hw_profile.h"
#include "planner/cli/catalogue/catalogue.h"
#include "planner/cli/commands.h"
#include "planner/cli/frame/output.h"
#include "planner/cli/frame/table.h"
#include "planner/cli/frame/words.h"
#include "planner/core/quantity.h"

namespace zplan {
namespace {

std::string list_text(const std::vector<HwProfile>& nodes) {
  Table table({Align::kLeft, Align::kLeft, Align::kRight, Align::kRight, Align::kRight,
               Align::kRight, Align::kLeft},
              {"node", "also", "GPU memory", "CPU memory", "NVMe", "devices", "device"});
  for (const HwProfile& node : nodes) {
    table.row({node.name, fmt::format("{}", fmt::join(node.aliases, ", ")),
               format_bytes(node.device.memory), format_bytes(node.host.memory),
               node.nvme.drives > 0 ? format_bytes(node.nvme.capacity) : "-",
               std::to_string(node.devices_per_node), node.device.name});
  }
  std::string out =
      table.text() +
      "\nNAMExCOUNT is a cluster (dgx2x32); zplan clusters NAME shows the sources of its "
      "numbers.\nGPU memory per device, usable; CPU memory and NVMe per node.\n\n";
  for (const Cluster& cluster : cluster_catalogue())
    out += fmt::format("{}: {}\n", cluster.name, cluster_words(cluster));
  return out;
}

std::string detail_text(const Cluster& cluster) {
  const HwProfile& node = cluster.node;
  std::string out =
      fmt::format("{}: {}\n{}\n\n", cluster.name, cluster_words(cluster), node.description);
  Table table({Align::kLeft, Align::kRight, Align::kLeft, Align::kLeft},
              {"value of a node", "", "source", "reference"});
  for (const ValueSource& s : cluster.sources)
    table.row({"cluster " + s.pointer, s.value, s.source, s.ref});
  for (const ValueSource& s : node.sources) table.row({s.pointer, s.value, s.source, s.ref});
  return out + table.text();
}

}  // namespace

ExitCode execute(const ClustersCommand& command) {
  if (!command.name.empty()) {
    const Cluster cluster = load_cluster(command.name);
    write_stdout(command.json ? clusters_json({cluster}) : detail_text(cluster));
    return ExitCode::kOk;
  }
  const std::vector<HwProfile> nodes = node_catalogue();
  if (!command.json) {
    write_stdout(list_text(nodes));
    return ExitCode::kOk;
  }
  std::vector<Cluster> clusters;
  for (const HwProfile& node : nodes)
    clusters.push_back({.name = node.name, .node = node, .stack = {}});
  for (Cluster& cluster : cluster_catalogue()) clusters.push_back(std::move(cluster));
  write_stdout(clusters_json(clusters));
  return ExitCode::kOk;
}

}  // namespace zplan
