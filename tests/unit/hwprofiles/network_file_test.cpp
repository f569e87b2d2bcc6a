// "network" of "zplan.cluster/2", and what else that form of the file takes.
#include "hwprofiles/network_file.h"

#include <gtest/gtest.h>

#include "hwprofiles/cluster_file.h"
#include "hwprofiles/fabric.h"
#include "planner/core/error.h"
#include "planner/core/json_reader.h"
#include "tests/support/error_message.h"

namespace zplan {
namespace {

Cluster parse(const std::string& text) {
  return read_cluster_file(parse_json(text, "c.json"), text, "");
}

std::string file_with(const std::string& members) {
  return R"({"schema": "zplan.cluster/2", "name": "mine")" + members + "}";
}

std::string graph(const std::string& links, const std::string& more = "") {
  return file_with(R"(, "node": "dgx-h100", "nodes": 4, "network": {"kind": "graph",
"switches": {"leaf": [2], "spine": []}, "links": [)" +
                   links + "]" + more + "}");
}

constexpr const char* kPorts = R"({"from": "node[n].port[p]", "to": "leaf[n / 2]"})";
constexpr const char* kSpine =
    R"({"from": "leaf[l]", "to": "spine",
"rate": {"value": "100 GB/s", "source": "assumed", "ref": "test"}, "cables": 4})";

std::string both(const std::string& ports = kPorts, const std::string& spine = kSpine) {
  return graph(ports + ", " + spine);
}

TEST(NetworkFile, ReadsSetsRulesAndWeakLinks) {
  const Cluster cluster = parse(graph(std::string(kPorts) + ", " + kSpine, R"(, "weak": [
{"from": "leaf[1]", "to": "spine", "share": {"value": 0.25, "source": "assumed", "ref": "t"}}])"));
  const NetworkRules& rules = *cluster.network.rules;
  ASSERT_EQ(rules.switches.size(), 2u);
  EXPECT_EQ(rules.switches[1].name, "spine");
  ASSERT_EQ(rules.links.size(), 2u);
  EXPECT_EQ(rules.links[1].cables, 4);
  const Fabric fabric(cluster);
  const auto up = [&](const char* leaf) {
    const LinkId id = fabric.graph().links_of(*fabric.graph().find(leaf))[0];
    return fabric.graph().link(id).capacity.value;
  };
  EXPECT_DOUBLE_EQ(up("leaf[0]"), 400e9);
  EXPECT_DOUBLE_EQ(up("leaf[1]"), 100e9);
  EXPECT_FALSE(cluster.sources.empty());
}

TEST(NetworkFile, TheSameLeavesAndSpineAsAGraphAreTheSameNetwork) {
  Cluster leaves = load_cluster("dgx-h100x4");
  leaves.network.nodes_per_leaf = 2;
  leaves.network.oversubscription = 2;
  const Cluster rules = parse(both());
  const Fabric one(leaves), other(rules);
  EXPECT_EQ(one.folded().graph().links().size(), other.folded().graph().links().size());
}

std::string refusal(const std::string& text) {
  return testing_support::message_of([&] { parse(text); });
}

TEST(NetworkFile, SaysWhichRuleMakesNoNetwork) {
  const auto has = [](const std::string& message, const std::string& part) {
    EXPECT_NE(message.find(part), std::string::npos) << message;
  };
  has(refusal(both(R"({"from": "node[n].port[p]", "to": "leaf[n]"})")),
      "expected one range for n, got 4 and 2");
  has(refusal(both(R"({"from": "node[n].port[p]", "to": "leaf[n + 1]"})")),
      "expected an index from 0 to 1 by \"n + 1\", got 2");
  has(refusal(both(R"({"from": "node[n].port[p]", "to": "leaf[q / 2]"})")),
      "expected q as an index by itself");
  has(refusal(both(R"({"from": "node[n].port[p]", "to": "leaf[n / 2]", "where": "n < 3"})")),
      "expected node[3].port[0] on a switch, got none");
  has(refusal(graph(std::string(kPorts) + ", " + kPorts + ", " + kSpine)),
      "expected node[0].port[0] on one switch, got leaf[0] and leaf[0]");
  has(refusal(graph(kPorts)), "expected links from leaf[0] to leaf[1], got no way");
  has(refusal(both(kPorts, R"({"from": "leaf[l]", "to": "core"})")),
      "/network/links/1/to: expected a set of \"switches\" or \"node\", got \"core\"");
  has(refusal(both(kPorts, R"({"from": "leaf[l, m]", "to": "spine"})")),
      "/network/links/1/from: expected 1 indices of leaf, got 2");
  has(refusal(both(kPorts, R"({"from": "leaf[l]", "to": "spine"})")), "rate");
  has(refusal(both(R"({"from": "node[n]", "to": "leaf[n / 2]"})")), "node[n].port[p]");
  has(refusal(both(R"({"from": "node[n].port[p]", "to": "leaf[n / 2"})")), "']'");
  has(refusal(graph(std::string(kPorts) + ", " + kSpine, R"(, "weak": [
{"from": "leaf[0]", "to": "leaf[1]", "share": {"value": 0.5, "source": "assumed", "ref": "t"}}])")),
      "got a weak one between leaf[0] and leaf[1]");
  has(refusal(graph(std::string(kPorts) + ", " + kSpine, R"(, "weak": [
{"from": "node[0].port[0]", "to": "leaf[0]",
"share": {"value": 0, "source": "assumed", "ref": "t"}}])")),
      "expected a link of node[0].port[0] that carries something");
}

TEST(NetworkFile, TheFirstFormHasNoGraphs) {
  std::string text = both();
  text.replace(text.find("zplan.cluster/2"), 15, "zplan.cluster/1");
  EXPECT_NE(refusal(text).find("/network/kind: expected"), std::string::npos) << refusal(text);
}

TEST(NetworkFile, TransportIsThatOfTheNetwork) {
  const Cluster cluster = parse(file_with(R"(, "node": "dgx-h100", "nodes": 4, "transport": {
"efficiency": {"value": 0.8, "source": "assumed", "ref": "t"},
"latency": {"value": "30 us", "source": "assumed", "ref": "t"}})"));
  EXPECT_DOUBLE_EQ(cluster.node.topology.nic.efficiency, 0.8);
  EXPECT_DOUBLE_EQ(cluster.node.latency.transport.value, 30e-6);
}

// Several kinds of nodes can be looked at, not planned for.
TEST(NetworkFile, GroupsAreKindsOfNodes) {
  const std::string text = file_with(R"(, "groups": [
{"node": "dgx-a100", "nodes": 4}, {"node": "dgx-h100", "nodes": 2}])");
  const Cluster cluster = parse(text);
  ASSERT_EQ(cluster.groups.size(), 2u);
  EXPECT_EQ(cluster.groups[1].node, "dgx-h100");
  EXPECT_EQ(cluster.nodes, 6);
  EXPECT_EQ(cluster.devices(), 48);
  EXPECT_NE(refusal(file_with(R"(, "groups": [{"node": "dgx-a100", "nodes": 4}])"))
                .find("expected two kinds of nodes or more"),
            std::string::npos);
}

}  // namespace
}  // namespace zplan
