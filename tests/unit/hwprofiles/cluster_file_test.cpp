// The file format "zplan.cluster/1".
#include "hwprofiles/cluster_file.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "hwprofiles/seating.h"
#include "planner/core/error.h"
#include "tests/support/error_message.h"
#include "tests/support/source_dir.h"

namespace zplan {
namespace {

using testing_support::message_of;

Cluster parse(const std::string& text) {
  return read_cluster_file(parse_json(text, "c.json"), text, "");
}

// A file of four DGX H100 with these members after the usual ones.
std::string file_with(const std::string& members) {
  return R"({"schema": "zplan.cluster/1", "name": "mine", "node": "dgx-h100", "nodes": 36)" +
         members + "}";
}

std::string leaf_spine(const std::string& ratio, const std::string& more = "") {
  return file_with(R"(, "network": {"kind": "leaf_spine", "nodes_per_leaf": 16,
"oversubscription": {"value": )" +
                   ratio + R"(, "source": "datasheet", "ref": "plan of the network"},
"rails": true)" + more +
                   "}");
}

std::string domain(int devices) {
  return file_with(R"(, "fast_link_domain": {"value": )" + std::to_string(devices) +
                   R"(, "source": "datasheet", "ref": "rack"})");
}

TEST(ClusterFile, ItsShortestFormIsTheNameWithACount) {
  const Cluster plain = load_cluster("dgx-h100x36"), file = parse(file_with(""));
  EXPECT_EQ(file.name, "mine");
  EXPECT_EQ(file.nodes, plain.nodes);
  EXPECT_EQ(file.devices(), plain.devices());
  EXPECT_EQ(file.node.name, plain.node.name);
  EXPECT_FALSE(file.network.has_leaves());
  EXPECT_EQ(file.domain(), 8);
  EXPECT_EQ(file.stack.gemm, plain.stack.gemm);
  EXPECT_FALSE(parse(file_with(R"(, "network": {"kind": "full_bisection"})")).network.has_leaves());
}

TEST(ClusterFile, ItsNodeMayHaveSettings) {
  const std::string text =
      R"({"schema": "zplan.cluster/1", "name": "c", "node": "dgx2{gpu.memory=80GiB}", "nodes": 4})";
  const Cluster cluster = read_cluster_file(parse_json(text, "c.json"), text, "");
  EXPECT_EQ(cluster.node.device.memory, Bytes{80LL << 30});
  EXPECT_EQ(cluster.sources.size(), 1u);
}

TEST(ClusterFile, AllThatItLacksIsToldAtOnce) {
  const std::string text =
      R"({"schema": "zplan.cluster/1", "network": {}, "node": "dgx2", "count": 1})";
  EXPECT_EQ(message_of(
                [&] { read_cluster_file(gathering_faults(parse_json(text, "c.json")), text, ""); }),
            "c.json:1:1: /: expected keys \"name\", \"nodes\", got an object without them; "
            "c.json:1:62: /count: expected one of the keys \"schema\", \"name\", \"node\", "
            "\"nodes\", \"network\", \"fast_link_domain\", got unknown key \"count\"; "
            "c.json:1:42: /network: expected key \"kind\", got an object without it");
}

TEST(ClusterFile, StatesALeafSpineNetworkWithItsSource) {
  const Cluster cluster = parse(leaf_spine("2.5"));
  EXPECT_EQ(cluster.network.nodes_per_leaf, 16);
  EXPECT_EQ(cluster.network.oversubscription, 2.5);
  EXPECT_TRUE(cluster.network.rails);
  EXPECT_FALSE(cluster.network.scattered);
  ASSERT_EQ(cluster.sources.size(), 1u);
  EXPECT_EQ(cluster.sources[0].pointer, "/network/oversubscription");
  EXPECT_EQ(cluster.sources[0].value, "2.5");
  EXPECT_NE(cluster.node.hash, load_cluster("dgx-h100").node.hash);
}

TEST(ClusterFile, NodesOfAJobLieInLeavesInOrderOrScattered) {
  NetworkSpec network = parse(leaf_spine("2")).network;
  EXPECT_EQ(network.leaves(36), 3);
  EXPECT_EQ(network.leaf_of(15, 36), 0);
  EXPECT_EQ(network.leaf_of(16, 36), 1);
  network = parse(leaf_spine("2", R"(, "allocation": "scattered")")).network;
  EXPECT_EQ(network.leaf_of(15, 36), 0);
  EXPECT_EQ(network.leaf_of(16, 36), 1);
  EXPECT_EQ(network.leaf_of(2, 36), 2);
}

TEST(ClusterFile, StatesDomainsOfFastLinksThatAreBlocksOrWholeNodes) {
  const Seating rack(parse(domain(72)));
  EXPECT_EQ(rack.domain_of(71), rack.domain_of(0));
  EXPECT_EQ(rack.island_of(72), 1);
  const Seating pairs(parse(domain(2)));
  EXPECT_EQ(pairs.domain_of(2), 1);
  EXPECT_EQ(pairs.island_of(7), 0);
  EXPECT_EQ(message_of([] { parse(domain(12)); }),
            "c.json:1:100: /fast_link_domain: expected a divisor or a multiple of the 8 devices of "
            "a node, got 12");
}

TEST(ClusterFile, SaysWhereItIsWrong) {
  EXPECT_EQ(message_of([] { parse(leaf_spine("0.5")); }),
            "c.json:2:31: /network/oversubscription/value: expected a number from 1 to 1000, got "
            "number 0.5");
  EXPECT_EQ(message_of([] { parse(leaf_spine("2", R"(, "alocation": "in_order")")); }),
            "c.json:3:16: /network/alocation: expected key \"allocation\", got unknown key "
            "\"alocation\"");
  const std::string known =
      message_of([] { parse(file_with(R"(, "network": {"kind": "mesh"})")); });
  EXPECT_NE(known.find("/network/kind: expected"), std::string::npos) << known;
  const std::string node = message_of([] {
    parse(R"({"schema": "zplan.cluster/1", "name": "mine", "node": "dgx-h10", "nodes": 1})");
  });
  EXPECT_NE(node.find("/node: unknown cluster \"dgx-h10\"; did you mean \"dgx-h100\"?"),
            std::string::npos)
      << node;
  EXPECT_NE(message_of([] {
              parse(R"({"schema": "zplan.cluster/1", "name": "m", "node": "dgx2x2", "nodes": 1})");
            }).find("/node: expected one node, not a cluster"),
            std::string::npos);
}

TEST(ClusterFile, ANodeMayBeAFileBesideIt) {
  const std::filesystem::path folder = std::filesystem::path(testing::TempDir()) / "cluster_file";
  std::filesystem::create_directories(folder);
  std::filesystem::copy_file(ZPLAN_SOURCE_DIR "/hwprofiles/catalogue/dgx-a100.json",
                             folder / "own.json",
                             std::filesystem::copy_options::overwrite_existing);
  const std::string path = (folder / "cluster.json").string();
  std::ofstream(path)
      << R"({"schema": "zplan.cluster/1", "name": "c", "node": "own.json", "nodes": 3})";
  EXPECT_EQ(load_cluster(path).devices(), 24);
  EXPECT_NE(message_of([&] { load_cluster(path + "x4"); }).find("expected no count"),
            std::string::npos);
}

TEST(ClusterCatalogue, IsFoundByName) {
  const std::vector<std::string> names = cluster_names();
  EXPECT_EQ(cluster_catalogue().size(), names.size());
  for (const Cluster& cluster : cluster_catalogue()) {
    EXPECT_TRUE(std::binary_search(names.begin(), names.end(), cluster.name));
    EXPECT_EQ(load_cluster(cluster.name).devices(), cluster.devices());
    EXPECT_FALSE(cluster.sources.empty());
  }
  EXPECT_EQ(load_cluster("DGX-H100x1024-2to1").network.oversubscription, 2);
}

}  // namespace
}  // namespace zplan
