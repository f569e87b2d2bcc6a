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
  const Fabric one = Fabric(leaves).folded(), other = Fabric(rules).folded();
  const double uplinks = 2 * 8 * leaves.node.topology.nic.effective().value / 2;
  const auto rates = [](const Fabric& fabric) {
    std::vector<double> all;
    for (const Link& link : fabric.graph().links()) all.push_back(link.effective().value);
    return all;
  };
  EXPECT_EQ(rates(one), std::vector<double>(4, uplinks));
  EXPECT_EQ(rates(other), std::vector<double>(4, 400e9));
  const BytesPerSecond port = leaves.node.topology.nic.effective();
  EXPECT_NEAR(other.bisection(port).value, 400e9, 1);
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
  has(refusal(both(kPorts, R"({"from": "leaf[a]", "to": "leaf[b]", "where": "a != b",
"rate": {"value": "1 GB/s", "source": "assumed", "ref": "t"}})")),
      "/network: links/1: the link between leaf[1] and leaf[0] comes twice, for links lead both "
      "ways");
  has(refusal(both(kPorts, R"({"from": "leaf[a]", "to": "leaf[b]",
"rate": {"value": "1 GB/s", "source": "assumed", "ref": "t"}})")),
      "links/1: leaf[0] leads to itself; leave it out by \"where\"");
  has(refusal(graph(std::string(kPorts) + ", " + kSpine, R"(, "weak": [
{"from": "leaf[1 / 0]", "to": "spine", "share": {"value": 0, "source": "assumed", "ref": "t"}}])")),
      "/network: weak/0: expected a divisor of 1 or more");
  has(refusal(graph(std::string(kPorts) + ", " + kSpine, R"(, "weak": [
{"from": "leaf[0]", "to": "spine", "share": {"value": 0.5, "source": "assumed", "ref": "t"}},
{"from": "spine", "to": "leaf[0]", "share": {"value": 0.1, "source": "assumed", "ref": "t"}}])")),
      "expected one weak link between spine and leaf[0], got two");
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

// A port's link at a rate of its own, and weak links by a rule: all of one leaf at half the rate.
TEST(NetworkFile, RulesMakePortsAndLinksWeak) {
  const std::string slow = R"({"from": "node[n].port[p]", "to": "leaf[n / 2]", "where": "n < 2",
"rate": {"value": "10 GB/s", "source": "assumed", "ref": "t"}, "efficiency": 0.5},
{"from": "node[n].port[p]", "to": "leaf[n / 2]", "where": "n >= 2",
"rate": {"value": "1 TB/s", "source": "assumed", "ref": "t"}})";
  const Cluster cluster = parse(graph(slow + ", " + kSpine, R"(, "weak": [
{"from": "node[n].port[p]", "to": "leaf[0]", "where": "n < 2 and p % 2 == 0", "share": 0.5},
{"from": "leaf[l]", "to": "spine", "where": "l == 1", "share": 0.25}])"));
  const Fabric fabric(cluster);
  const auto port_rate = [&](int node, int port) {
    const VertexId at = fabric.switch_of(node, port), behind = fabric.switch_behind(node, port);
    if (at == behind) return cluster.node.topology.nic.effective().value;
    return fabric.graph().link(*fabric.graph().link_between(at, behind)).capacity.value;
  };
  EXPECT_DOUBLE_EQ(port_rate(0, 0), 2.5e9);
  EXPECT_DOUBLE_EQ(port_rate(1, 7), 5e9);
  EXPECT_DOUBLE_EQ(port_rate(2, 0), cluster.node.topology.nic.effective().value);
  const auto up = [&](const char* leaf) {
    const VertexId at = *fabric.graph().find(leaf), spine = *fabric.graph().find("spine");
    return fabric.graph().link(*fabric.graph().link_between(at, spine)).capacity.value;
  };
  EXPECT_DOUBLE_EQ(up("leaf[0]"), 400e9);
  EXPECT_DOUBLE_EQ(up("leaf[1]"), 100e9);
}

// A million million switches, and as many links to look at.
TEST(NetworkFile, WhatIsTooLargeIsRefusedAtOnce) {
  const std::string network = R"(, "node": "dgx-h100", "nodes": 1, "network": {"kind": "graph",
"switches": {"leaf": [)";
  EXPECT_NE(refusal(file_with(network + R"(100000, 100000, 100000, 100000]}, "links": []})"))
                .find("expected at most 200000 switches, got more"),
            std::string::npos);
  EXPECT_NE(refusal(file_with(network + R"(100000]}, "links": [{"from": "leaf[a]", "to": "leaf[b]",
"where": "a < b", "rate": {"value": "1 GB/s", "source": "assumed", "ref": "t"}}]})"))
                .find("expected rules of at most 50000000 links to look at"),
            std::string::npos);
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
