#include "hwprofiles/cluster_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "hwprofiles/cluster_name.h"
#include "hwprofiles/embedded_profiles.h"
#include "hwprofiles/read_node.h"
#include "hwprofiles/sourced_object.h"
#include "planner/core/error.h"
#include "planner/core/hash.h"
#include "planner/core/text.h"

namespace zplan {
namespace {

constexpr double kMostOversubscribed = 1000;

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
  if (cluster.nodes != 1 || cluster.network.has_leaves() || cluster.fast_link_domain > 0)
    node.fail_expected("one node, not a cluster");
  return cluster;
}

NetworkSpec read_network(const JsonNode& node, const Cluster& cluster,
                         std::vector<ValueSource>& sources) {
  SourcedObject in(node, sources);
  NetworkSpec network;
  if (in.object().member("kind").one_of({"full_bisection", "leaf_spine"}) == "leaf_spine") {
    if (cluster.node.topology.nics() == 0)
      node.fail("expected a node with network interfaces, got " + cluster.node.name);
    network.nodes_per_leaf =
        static_cast<int>(in.object().member("nodes_per_leaf").integer(1, kMaxNodes));
    network.oversubscription = in.number("oversubscription", 1, kMostOversubscribed);
    network.rails = in.object().member("rails").boolean();
    if (const auto allocation = in.object().optional_member("allocation"))
      network.scattered = allocation->one_of({"in_order", "scattered"}) == "scattered";
  }
  in.finish();
  return network;
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
  in.schema("zplan.cluster/1");
  const std::string name = in.member("name").non_empty_string();
  Cluster cluster = node_of(in.member("node"), folder);
  cluster.name = name;
  cluster.nodes = static_cast<int>(in.member("nodes").integer(1, kMaxNodes));
  if (const auto network = in.optional_member("network"))
    cluster.network = read_network(*network, cluster, cluster.sources);
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

std::vector<Cluster> cluster_catalogue() {
  std::vector<Cluster> clusters;
  for (const EmbeddedFile& file : embedded_clusters()) {
    const std::string text(file.text);
    clusters.push_back(read_cluster_file(parse_json(text, std::string(file.name)), text, ""));
  }
  std::sort(clusters.begin(), clusters.end(),
            [](const Cluster& a, const Cluster& b) { return a.name < b.name; });
  return clusters;
}

}  // namespace zplan
