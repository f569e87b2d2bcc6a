// Networks as graphs: what hangs where, which switches are one for all loads, and what the halves
// of a cluster can send each other.
#include "hwprofiles/fabric.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "hwprofiles/cluster_file.h"
#include "hwprofiles/fabric_routes.h"
#include "planner/core/json_reader.h"
#include "tests/support/error_message.h"
#include "tests/support/network_loads.h"

namespace zplan {
namespace {

Cluster cluster_with(int nodes, const std::string& network) {
  const std::string text = R"({"schema": "zplan.cluster/2", "name": "mine", "node": "dgx-h100",
"nodes": )" + std::to_string(nodes) +
                           R"(, "network": {"kind": "graph", )" + network + "}}";
  return read_cluster_file(parse_json(text, "c.json"), text, "");
}

std::string rate(const std::string& value) {
  return R"("rate": {"value": ")" + value + R"(", "source": "assumed", "ref": "test"})";
}

// Pods of leaves and middle switches; each middle switch with core switches of its own.
Cluster three_levels(int nodes = 16) {
  return cluster_with(nodes, R"("switches": {"leaf": [4, 2], "middle": [4, 2], "core": [2, 3]},
"links": [
  {"from": "node[n].port[p]", "to": "leaf[n / 4, n % 4 / 2]"},
  {"from": "leaf[pod, l]", "to": "middle[pod, m]", )" +
                                 rate("100 GB/s") + R"(},
  {"from": "middle[pod, m]", "to": "core[m, c]", )" +
                                 rate("50 GB/s") + "}]");
}

const LinkId* end_link(const Fabric& fabric, VertexId from, VertexId to) {
  for (const LinkId& link : fabric.graph().links_of(from))
    if (fabric.graph().link(link).to == to) return &link;
  return nullptr;
}

TEST(Fabric, PortsHangWhereTheRulesSay) {
  const Cluster cluster = three_levels();
  const Fabric fabric(cluster);
  const auto name = [&](int node, int port) {
    return fabric.graph().vertex(fabric.switch_of(node, port)).name;
  };
  EXPECT_EQ(name(0, 0), "leaf[0,0]");
  EXPECT_EQ(name(0, 7), "leaf[0,0]");
  EXPECT_EQ(name(3, 0), "leaf[0,1]");
  EXPECT_EQ(name(15, 5), "leaf[3,1]");
  EXPECT_EQ(fabric.graph().vertices().size(), 8u + 8 + 6);
  EXPECT_EQ(fabric.graph().links().size(), 2u * (4 * 2 * 2 + 4 * 2 * 3));
  EXPECT_FALSE(fabric.is_direct());
}

TEST(Fabric, SwitchesThatNoLoadTellsApartAreOne) {
  const Fabric folded = Fabric(three_levels()).folded();
  // Eight leaves, the two middle switches of each pod as one, all cores as one.
  EXPECT_EQ(folded.graph().vertices().size(), 8u + 4 + 1);
  const VertexId leaf = folded.switch_of(0, 0);
  const auto links = folded.graph().links_of(leaf);
  ASSERT_EQ(links.size(), 1u);
  EXPECT_DOUBLE_EQ(folded.graph().link(links[0]).capacity.value, 200e9);
  const VertexId middle = folded.graph().link(links[0]).to;
  double up = 0;
  for (const LinkId id : folded.graph().links_of(middle))
    if (folded.kind(id) == "middle to core") up += folded.graph().link(id).capacity.value;
  EXPECT_DOUBLE_EQ(up, 2 * 3 * 50e9);
}

// Every flow puts the same part of their rate on links that were folded into one.
TEST(Fabric, FoldedLinksCarryWhatEachOfTheirsDoes) {
  for (const Cluster& cluster :
       {three_levels(), load_cluster("dgx-h100x64-dragonfly"), load_cluster("dgx-h100x64-torus"),
        load_cluster("dgx-h100x64-weak")}) {
    const Fabric whole(cluster), folded = Fabric(cluster).folded();
    const FabricRoutes routes(whole), folded_routes(folded);
    for (const auto& [from, to] : {std::pair{0, 1}, {0, 5}, {2, 15}, {9, 4}, {15, 0}}) {
      for (const int port : {0, 3}) {
        std::vector<double> loads(whole.graph().links().size());
        std::vector<double> folded_loads(folded.graph().links().size());
        routes.add(whole.switch_of(from, port), whole.switch_of(to, port), 1, loads);
        folded_routes.add(folded.switch_of(from, port), folded.switch_of(to, port), 1,
                          folded_loads);
        const auto expanded = testing_support::slowest(whole, loads);
        const auto one = testing_support::slowest(folded, folded_loads);
        ASSERT_EQ(expanded.size(), one.size());
        for (const auto& [kind, time] : expanded)
          EXPECT_NEAR(one.at(kind), time, 1e-9 * time) << cluster.name << ' ' << kind;
      }
    }
  }
}

TEST(Fabric, TakesAsManySwitchesAsItSays) {
  const auto with = [&](const std::string& sets) {
    return cluster_with(2, R"("switches": {)" + sets +
                               R"(}, "links": [{"from": "node[n].port[p]", "to": "leaf[0, 0]"}])");
  };
  EXPECT_NO_THROW(with(R"("spine": [512], "leaf": [1, 500])"));
  EXPECT_NO_THROW(with(R"("spine": [50000, 3], "leaf": [1000, 50])"));
  const std::string message =
      testing_support::message_of([&] { with(R"("spine": [50000, 3], "leaf": [1000, 51])"); });
  EXPECT_NE(message.find("expected at most 200000 switches, got more"), std::string::npos)
      << message;
}

TEST(Fabric, LeavesAndSpineAreTheGraphOfTheirRatio) {
  Cluster cluster = load_cluster("dgx-h100x4");
  cluster.network.nodes_per_leaf = 2;
  cluster.network.oversubscription = 2;
  const Fabric fabric = Fabric(cluster).folded();
  const double port = cluster.node.topology.nic.effective().value;
  const VertexId leaf = fabric.switch_of(0, 0);
  EXPECT_EQ(leaf, fabric.switch_of(1, 7));
  EXPECT_NE(leaf, fabric.switch_of(2, 0));
  const auto links = fabric.graph().links_of(leaf);
  ASSERT_EQ(links.size(), 1u);
  EXPECT_DOUBLE_EQ(fabric.graph().link(links[0]).capacity.value, 2 * 8 * port / 2);
  EXPECT_EQ(fabric.kind(links[0]), "leaf uplink");
}

// Two nodes of eight ports on each side: what they can send, and half of it through the spine.
TEST(Fabric, BisectionIsTheNarrowestCut) {
  Cluster cluster = load_cluster("dgx-h100x4");
  const BytesPerSecond port = cluster.node.topology.nic.effective();
  cluster.network.nodes_per_leaf = 2;
  EXPECT_NEAR(Fabric(cluster).bisection(port).value, 16 * port.value, 1);
  cluster.network.oversubscription = 2;
  EXPECT_NEAR(Fabric(cluster).bisection(port).value, 8 * port.value, 1);
  EXPECT_NEAR(Fabric(cluster).folded().bisection(port).value, 8 * port.value, 1);
  cluster.network.scattered = true;  // each half has nodes on each leaf
  EXPECT_NEAR(Fabric(cluster).bisection(port).value, 16 * port.value, 1);
}

TEST(Fabric, OfATorusEachNodeHasASwitchOfItsOwn) {
  const Fabric fabric(load_cluster("dgx-h100x64-torus"));
  EXPECT_TRUE(fabric.is_direct());
  for (int node = 0; node < 64; ++node)
    EXPECT_EQ(fabric.graph().links_of(fabric.switch_of(node, 0)).size(), 6u);
}

TEST(Fabric, BrokenLinksAreNoneAndWeakPortsAreOnTheWay) {
  const Fabric fabric(load_cluster("dgx-h100x64-weak"));
  const auto at = [&](const char* name) { return *fabric.graph().find(name); };
  EXPECT_EQ(end_link(fabric, at("leaf[0,0]"), at("spine[0,0]")), nullptr);
  EXPECT_NE(end_link(fabric, at("leaf[0,0]"), at("spine[0,1]")), nullptr);
  const VertexId weak = fabric.switch_of(5, 3);
  EXPECT_EQ(fabric.graph().vertex(weak).name, "node[5].port[3]");
  const LinkId* link = end_link(fabric, weak, at("leaf[0,3]"));
  ASSERT_NE(link, nullptr);
  EXPECT_DOUBLE_EQ(fabric.graph().link(*link).capacity.value,
                   load_cluster("dgx-h100").node.topology.nic.effective().value / 2);
}

}  // namespace
}  // namespace zplan
