// What collectives put on networks: rank by rank over all links, against what is priced, of one
// class and with equal switches as one.
#include "planner/cost/fabric_loads.h"

#include <gtest/gtest.h>

#include <map>

#include "hwprofiles/cluster_file.h"
#include "planner/core/json_reader.h"
#include "planner/cost/mesh_wires.h"
#include "tests/support/meshes.h"
#include "tests/support/network_loads.h"

namespace zplan {
namespace {

using testing_support::slowest;
using testing_support::Slowest;  // per byte of a rank
using testing_support::groups::kData;

// Every flow from rank to rank over every link of the network; nothing is folded.
class Expanded {
 public:
  Expanded(const Mesh& mesh, const Cluster& cluster)
      : seats_(mesh, cluster),
        topology_(cluster.node.topology),
        fabric_(cluster),
        routes_(fabric_),
        loads_(fabric_.graph().links().size()) {}

  // As many rings as an island has members; each leaves and enters by one member.
  Slowest rings() {
    for (const GroupSeats& group : seats_.groups(kData, 0))
      for (std::size_t i = 0; i < group.islands(); ++i) {
        const auto from = group.island(i), to = group.island((i + 1) % group.islands());
        for (std::size_t member = 0; member < from.size(); ++member)
          send(from[member], to[member], 1.0 / static_cast<double>(from.size()));
      }
    return slowest(fabric_, loads_);
  }

  Slowest pairs() {
    for (const GroupSeats& group : seats_.groups(kData, 0))
      for (const int from : group.ranks)
        for (const int to : group.ranks)
          if (seats_.seating().node_of(from) != seats_.seating().node_of(to))
            send(from, to, 1.0 / static_cast<double>(group.ranks.size() - 1));
    return slowest(fabric_, loads_);
  }

 private:
  // Over each port of the one to the same of the other.
  void send(int from, int to, double bytes) {
    const Seating& seating = seats_.seating();
    const auto out = topology_.nics_of(seating.device_of(from));
    const auto in = topology_.nics_of(seating.device_of(to));
    for (std::size_t i = 0; i < out.size(); ++i)
      routes_.add(switch_of(from, out[i]), switch_of(to, in[i]),
                  bytes / static_cast<double>(out.size()), loads_);
  }
  VertexId switch_of(int rank, VertexId nic) const {
    return fabric_.switch_of(seats_.seating().node_of(rank), topology_.vertex(nic).ordinal);
  }

  Seats seats_;
  Topology topology_;
  Fabric fabric_;
  FabricRoutes routes_;
  std::vector<double> loads_;
};

Slowest priced(const Mesh& mesh, const Cluster& cluster, PatternKind kind) {
  const auto node = std::make_shared<NodeWires>(cluster);
  MeshWires wires(mesh, cluster, node);
  Slowest most;
  for (const WireShare& share : wires.shares({kind, 0, 0, 0, kData})) {
    if (share.at.node != kNetwork) continue;
    const Fabric& fabric = node->network()->fabric;
    const LinkId id{static_cast<std::int32_t>(share.at.wire)};
    most[std::string(fabric.kind(id))] = share.weight / fabric.graph().link(id).capacity.value;
  }
  return most;
}

void expect_same(const Slowest& expanded, const Slowest& folded, const std::string& what) {
  EXPECT_EQ(expanded.size(), folded.size()) << what;
  for (const auto& [kind, time] : expanded) {
    ASSERT_TRUE(folded.contains(kind)) << what << ' ' << kind;
    EXPECT_NEAR(folded.at(kind), time, 1e-9 * time) << what << ' ' << kind;
  }
}

std::vector<Cluster> networks() {
  std::vector<Cluster> all;
  for (const char* name : {"dgx-h100x64-dragonfly", "dgx-h100x64-weak", "aws-p5x16", "dgx-h100x16"})
    all.push_back(load_cluster(name));
  for (Cluster& cluster : all)
    if (cluster.network.is_ideal()) {
      cluster.network.nodes_per_leaf = 4;
      cluster.network.oversubscription = 2;
      cluster.network.rails = cluster.node.name == "aws-p5";
    }
  all.push_back(all.back());
  all.back().network.rails = all.back().network.scattered = true;
  all.push_back(load_cluster("meta-h100-24k"));
  all.back().nodes = 768;  // two pods of it
  return all;
}

// Groups of all ranks, of every eighth, and of two of every eight.
TEST(FabricLoads, RingsAreThoseOfAllRanksOneByOne) {
  for (const Cluster& cluster : networks())
    for (const int tp : {1, 8}) {
      const Mesh mesh = testing_support::mesh_of({.dp = cluster.devices() / tp, .tp = tp});
      expect_same(Expanded(mesh, cluster).rings(), priced(mesh, cluster, PatternKind::kRing),
                  cluster.name + " tp " + std::to_string(tp));
    }
}

TEST(FabricLoads, ExchangesAreThoseOfAllPairs) {
  std::vector<Cluster> all = networks();
  all.push_back(load_cluster("dgx-h100x64-torus"));
  for (const Cluster& cluster : all) {
    if (cluster.devices() > 600) continue;  // whose pairs are many
    const Mesh mesh = testing_support::mesh_of({.dp = cluster.devices() / 8, .tp = 8});
    expect_same(Expanded(mesh, cluster).pairs(), priced(mesh, cluster, PatternKind::kPairs),
                cluster.name);
  }
}

// 4 x 4 x 4 nodes of six links: of a ring over all of them each carries a sixth, of one over a row
// half; eight such rings, one for each device, lie side by side.
TEST(FabricLoads, ARingOverATorusUsesTheLinksBetweenItsMembers) {
  const Cluster cluster = load_cluster("dgx-h100x64-torus");
  const double link = 50e9;
  const Mesh all = testing_support::mesh_of({.dp = 512});
  EXPECT_NEAR(priced(all, cluster, PatternKind::kRing).at("router to router"), 1.0 / 6 / link,
              1e-6 / link);
  const Mesh rows = testing_support::mesh_of({.dp = 64, .tp = 8, .shards = 4});
  const auto node = std::make_shared<NodeWires>(cluster);
  MeshWires wires(rows, cluster, node);
  double most = 0;
  for (const WireShare& share :
       wires.shares({PatternKind::kRing, 0, 0, 0, testing_support::groups::kShard}))
    if (share.at.node == kNetwork) most = std::max(most, share.weight);
  EXPECT_NEAR(most, 8 * 0.5, 1e-9);
}

Cluster wired(int nodes, const std::string& switches, const std::string& links,
              const std::string& weak = "") {
  const std::string text = R"({"schema": "zplan.cluster/2", "name": "wired", "node": "dgx-h100",
"nodes": )" + std::to_string(nodes) +
                           R"(, "network": {"kind": "graph", "switches": {)" + switches +
                           R"(}, "links": [)" + links + "]" + weak + "}}";
  return read_cluster_file(parse_json(text, "wired.json"), text, "");
}

constexpr const char* kRate =
    R"("rate": {"value": "400 Gbit/s", "source": "assumed", "ref": "test"}})";

// Two full meshes of eight nodes; one cable joins them, over which all bytes go.
TEST(FabricLoads, ARingPassesTheNarrowestCutOfItsMembers) {
  const Cluster cluster = wired(16, R"("r": [2, 8])",
                                std::string(R"({"from": "node[n].port[p]", "to": "r[n / 8, n % 8]"},
{"from": "r[g, a]", "to": "r[g, b]", "where": "a < b", )") +
                                    kRate + R"(, {"from": "r[0, 0]", "to": "r[1, 0]", )" + kRate);
  const Mesh all = testing_support::mesh_of({.dp = 128});
  EXPECT_NEAR(priced(all, cluster, PatternKind::kRing).at("r to r"), 1 / 50e9, 1e-18);
  const Mesh half = testing_support::mesh_of({.dp = 64});
  EXPECT_NEAR(priced(half, cluster, PatternKind::kRing).at("r to r"), 1.0 / 7 / 50e9, 1e-18);
}

// 16 nodes in a ring: whole it carries two bytes at a time past each cut, broken one.
TEST(FabricLoads, AWeakLinkCarriesWhatItCanAndABrokenOneNothing) {
  const auto time = [](double share) {
    const std::string weak =
        R"(, "weak": [{"from": "r[3]", "to": "r[4]", "share": )" + std::to_string(share) + "}]";
    const Cluster cluster = wired(16, R"("r": [16])",
                                  std::string(R"({"from": "node[n].port[p]", "to": "r[n]"},
{"from": "r[i]", "to": "r[(i + 1) % 16]", )") +
                                      kRate,
                                  weak);
    return priced(testing_support::mesh_of({.dp = 128}), cluster, PatternKind::kRing).at("r to r");
  };
  EXPECT_NEAR(time(1), 0.5 / 50e9, 1e-18);
  EXPECT_NEAR(time(0.25), 1 / 1.25 / 50e9, 1e-18);
  EXPECT_NEAR(time(0), 1 / 50e9, 1e-18);
}

// A port at half its rate does not make a torus another network; what goes over it takes longer.
TEST(FabricLoads, AWeakPortOfATorusIsOnTheWayAlone) {
  Cluster cluster = load_cluster("dgx-h100x64-torus");
  NetworkRules rules = *cluster.network.rules;
  WeakLink weak;
  std::vector<std::string>& names = weak.names;
  weak.from = {-1, {IndexRule("0", names), IndexRule("0", names)}};
  weak.to = {0, {IndexRule("0", names), IndexRule("0", names), IndexRule("0", names)}};
  weak.share = 0.5;
  rules.weak.push_back(weak);
  cluster.network.rules = std::make_shared<const NetworkRules>(rules);
  const Mesh mesh = testing_support::mesh_of({.dp = 512});
  const Slowest found = priced(mesh, cluster, PatternKind::kRing);
  EXPECT_NEAR(found.at("router to router"), 1.0 / 6 / 50e9, 1e-18);
  const double port = cluster.node.topology.nic.effective().value;
  EXPECT_NEAR(found.at("weak port out"), 1.0 / 8 / (port / 2), 1e-18);
  EXPECT_NEAR(found.at("weak port in"), 1.0 / 8 / (port / 2), 1e-18);
}

// Each port of a node hangs on a network of its own.
Cluster with_rails_apart(const std::string& name) {
  Cluster cluster = load_cluster(name);
  NetworkRules rules;
  rules.switches = {{"rail", {cluster.node.topology.nics()}}};
  LinkRule ports;
  ports.from = {-1, {IndexRule("n", ports.names), IndexRule("p", ports.names)}};
  ports.to = {0, {IndexRule("p", ports.names)}};
  rules.links = {ports};
  cluster.network.rules = std::make_shared<const NetworkRules>(rules);
  return cluster;
}

// Rings stay on their rail; a shift from the last device of a node to the first of the next is sent
// by that port of the own node.
TEST(FabricLoads, RailsThatAreApartAreReachedByTheOwnPort) {
  const Cluster cluster = with_rails_apart("dgx-h100x4");
  const Fabric fabric(cluster);
  EXPECT_FALSE(fabric.meet(fabric.switch_of(0, 0), fabric.switch_of(0, 1)));
  EXPECT_TRUE(fabric.meet(fabric.switch_of(0, 0), fabric.switch_of(3, 0)));
  const Mesh mesh = testing_support::mesh_of({.dp = 32});
  EXPECT_TRUE(priced(mesh, cluster, PatternKind::kRing).empty()) << "one switch carries each rail";
  EXPECT_TRUE(priced(mesh, cluster, PatternKind::kShift).empty());
}

// Returns the most that is on one of the links of a kind in a node.
double most_in_node(const Mesh& mesh, const Cluster& cluster, PatternKind kind, VertexKind from,
                    VertexKind to) {
  const auto node = std::make_shared<NodeWires>(cluster);
  const Topology& topology = node->topology();
  MeshWires wires(mesh, cluster, node);
  double most = 0;
  for (const WireShare& share : wires.shares({kind, 0, 0, 0, kData})) {
    if (share.at.node == kNetwork || share.at.wire >= topology.links().size()) continue;
    const Link& link = topology.links()[share.at.wire];
    if (topology.vertex(link.from).kind == from && topology.vertex(link.to).kind == to)
      most = std::max(most, share.weight);
  }
  return most;
}

// Of 31 others 7 are beside a device and 24 in other nodes, 21 of these on other rails: what is for
// them goes to the device of their rail first, and as much leaves by each port as ever.
TEST(FabricLoads, WhatIsForAnotherRailGoesOverPeerLinksFirst) {
  const Mesh mesh = testing_support::mesh_of({.dp = 32});
  const auto most = [&](const Cluster& cluster, VertexKind from, VertexKind to) {
    return most_in_node(mesh, cluster, PatternKind::kPairs, from, to);
  };
  const Cluster apart = with_rails_apart("dgx-h100x4"), ideal = load_cluster("dgx-h100x4");
  EXPECT_NEAR(most(ideal, VertexKind::kGpu, VertexKind::kNvSwitch), 7.0 / 31, 1e-9);
  EXPECT_NEAR(most(apart, VertexKind::kGpu, VertexKind::kNvSwitch), 28.0 / 31, 1e-9);
  EXPECT_NEAR(most(apart, VertexKind::kNvSwitch, VertexKind::kGpu), 28.0 / 31, 1e-9);
  EXPECT_NEAR(most(apart, VertexKind::kNic, VertexKind::kFabric), 24.0 / 31, 1e-9);
  EXPECT_EQ(most_in_node(mesh, apart, PatternKind::kRing, VertexKind::kGpu, VertexKind::kNvSwitch),
            most_in_node(mesh, ideal, PatternKind::kRing, VertexKind::kGpu, VertexKind::kNvSwitch));
}

// Without peer links it goes over the PCIe switch and the socket of the other port.
TEST(FabricLoads, WithoutPeerLinksWhatIsForAnotherRailPassesSockets) {
  const auto most = [&](const Cluster& cluster, VertexKind from, VertexKind to) {
    const Mesh mesh = testing_support::mesh_of({.dp = cluster.devices()});
    return most_in_node(mesh, cluster, PatternKind::kPairs, from, to);
  };
  const Cluster apart = with_rails_apart("l40s-serverx4"), ideal = load_cluster("l40s-serverx4");
  const int ports = apart.node.topology.nics();
  ASSERT_GT(ports, 1);
  EXPECT_GT(most(apart, VertexKind::kPcieSwitch, VertexKind::kSocket),
            1.5 * most(ideal, VertexKind::kPcieSwitch, VertexKind::kSocket));
  EXPECT_NEAR(most(apart, VertexKind::kNic, VertexKind::kFabric),
              most(ideal, VertexKind::kNic, VertexKind::kFabric), 1e-9);
}

// Rails have spine switches of their own, which meet in cores alone: rings stay below those.
TEST(FabricLoads, RingsArriveByThePortThatTheyLeaveBy) {
  const std::string text = R"({"schema": "zplan.cluster/2", "name": "rails", "node": "dgx-h100",
"nodes": 8, "network": {"kind": "graph", "switches": {"leaf": [4, 8], "spine": [8], "core": []},
"links": [{"from": "node[n].port[p]", "to": "leaf[n / 2, p]"},
{"from": "leaf[l, rail]", "to": "spine[rail]",
 "rate": {"value": "400 Gbit/s", "source": "assumed", "ref": "test"}},
{"from": "spine[rail]", "to": "core",
 "rate": {"value": "400 Gbit/s", "source": "assumed", "ref": "test"}}]}})";
  const Cluster cluster = read_cluster_file(parse_json(text, "rails.json"), text, "");
  const Slowest rings = priced(testing_support::mesh_of({.dp = 64}), cluster, PatternKind::kRing);
  EXPECT_TRUE(rings.contains("leaf to spine"));
  EXPECT_FALSE(rings.contains("spine to core"));
  // Groups of one device of each node exchange over one rail.
  EXPECT_FALSE(priced(testing_support::mesh_of({.dp = 8, .tp = 8}), cluster, PatternKind::kPairs)
                   .contains("spine to core"));
}

}  // namespace
}  // namespace zplan
