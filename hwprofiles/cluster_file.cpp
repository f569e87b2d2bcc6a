#include "hwprofiles/cluster_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "hwprofiles/cluster_name.h"
#include "hwprofiles/embedded_profiles.h"
#include "hwprofiles/network_file.h"
#include "hwprofiles/read_node.h"
#include "hwprofiles/sourced_object.h"
#include "planner/core/error.h"
#include "planner/core/hash.h"
#include "planner/core/text.h"

namespace zplan {
namespace {

// One node of the named kind.
Cluster node_of(const JsonNode& node, const std::string& folder) {
  if (node.is_missing()) return load_cluster("workstation");  // any, to read on
  if (node.is_object()) return make_cluster(read_node(complete_node(node, folder)), 1);
  std::string name = node.non_empty_string();
  Cluster cluster;
  try {
    const bool is_path = looks_like_path(split_settings(name).plain);
    if (is_path) name = (std::filesystem::path(folder) / name).string();
    cluster = load_cluster(name);
  } catch (const Error& error) {
    node.fail(error.what());
  }
  if (cluster.nodes != 1 || !cluster.network.is_ideal() || cluster.fast_link_domain > 0)
    node.fail_expected("one node, not a cluster");
  return cluster;
}

// "groups": kinds of nodes that are not alike, as many of each. The first kind stands for the node.
Cluster groups_of(const JsonNode& node, const std::string& folder) {
  Cluster cluster;
  int nodes = 0;
  std::vector<NodeGroup> groups;
  for (const JsonNode& item : node.items()) {
    JsonObject in = item.object();
    const Cluster one = node_of(in.member("node"), folder);
    const int count = static_cast<int>(in.member("nodes").integer(1, kMaxNodes));
    in.finish();
    if (groups.empty()) cluster = one;
    groups.push_back({one.node.name, one.node.devices_per_node, count});
    nodes += count;
  }
  if (groups.size() < 2)
    node.fail_expected("two kinds of nodes or more; of one \"node\" and \"nodes\" say it");
  cluster.nodes = nodes;
  cluster.groups = std::move(groups);
  return cluster;
}

// Sets what the ports of these nodes reach on this network in place of what the node's file says.
void read_transport(const JsonNode& node, Cluster& cluster) {
  if (cluster.node.topology.nics() == 0)
    node.fail("expected a node with network interfaces, got " + cluster.node.name);
  SourcedObject in(node, cluster.sources);
  if (in.has("efficiency")) cluster.node.topology.nic.efficiency = in.fraction("efficiency");
  if (in.has("latency")) cluster.node.latency.transport = in.seconds("latency");
  in.finish();
}

// Blocks of a node, or whole nodes.
void check_domain(const JsonNode& node, const Cluster& cluster) {
  const int domain = cluster.fast_link_domain, per_node = cluster.node.devices_per_node;
  const TopologySpec& wires = cluster.node.topology;
  if (!wires.gpu_peer) node.fail("expected a node with peer links, got " + cluster.node.name);
  if (wires.peer_shape.kind != PeerKind::kSwitch && domain != per_node)
    node.fail("expected peer links through a switch, got another shape");
  if (domain % per_node != 0 && per_node % domain != 0) {
    node.fail(fmt::format("expected a divisor or a multiple of the {} devices of a node, got {}",
                          per_node, domain));
  }
}

}  // namespace

bool is_cluster_file(const JsonNode& root) {
  if (!root.is_object()) return false;
  const auto members = root.members();
  return std::any_of(members.begin(), members.end(), [](const auto& member) {
    return member.first == "schema" && member.second.is_string() &&
           member.second.string().starts_with("zplan.cluster/");
  });
}

Cluster read_cluster_file(const JsonNode& root, const std::string& text,
                          const std::string& folder) {
  JsonObject in = root.object();
  const bool second =
      in.member("schema").one_of({"zplan.cluster/1", "zplan.cluster/2"}) == "zplan.cluster/2";
  const std::string name = in.member("name").non_empty_string();
  Cluster cluster;
  if (const auto groups = second ? in.optional_member("groups") : std::nullopt) {
    cluster = groups_of(*groups, folder);
  } else {
    cluster = node_of(in.member("node"), folder);
    cluster.nodes = static_cast<int>(in.member("nodes").integer(1, kMaxNodes));
  }
  cluster.name = name;
  if (const auto transport = second ? in.optional_member("transport") : std::nullopt)
    read_transport(*transport, cluster);
  if (const auto network = in.optional_member("network"))
    cluster.network = read_network(*network, cluster, second, cluster.sources);
  if (in.optional_member("fast_link_domain")) {
    SourcedObject sourced(root, cluster.sources);
    cluster.fast_link_domain =
        sourced.integer("fast_link_domain", 1, kMaxNodes * cluster.node.devices_per_node);
    check_domain(in.member("fast_link_domain"), cluster);
  }
  in.finish();
  cluster.node.hash = to_hex(fnv1a128(cluster.node.hash + text));
  return cluster;
}

const EmbeddedFile* find_cluster_file(std::string_view name) {
  for (const EmbeddedFile& file : embedded_clusters())
    if (file.stem() == to_lower(name)) return &file;
  return nullptr;
}

std::vector<std::string> cluster_names() {
  std::vector<std::string> names;
  for (const EmbeddedFile& file : embedded_clusters()) names.emplace_back(file.stem());
  std::sort(names.begin(), names.end());
  return names;
}

Cluster read_embedded_cluster(const EmbeddedFile& file) {
  const std::string text(file.text);
  return read_cluster_file(parse_json(text, std::string(file.name)), text, "");
}

std::vector<Cluster> cluster_catalogue() {
  std::vector<Cluster> clusters;
  for (const std::string& name : cluster_names())
    clusters.push_back(read_embedded_cluster(*find_cluster_file(name)));
  return clusters;
}

}  // namespace zplan
