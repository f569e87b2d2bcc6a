// Loads of leaf uplinks, of domains of fast links that are not nodes, and of peer links without a
// switch, counted by hand. small_machine: 4 GPUs and 2 ports of 5 GB/s per node, peer links of
// 100 GB/s, 10 GB/s to the host per switch of two GPUs.
#include <gtest/gtest.h>

#include <map>

#include "planner/cost/cost_model.h"
#include "planner/cost/shared_wires.h"
#include "planner/cost/wiring.h"
#include "tests/support/meshes.h"
#include "tests/unit/cost/small_machine.h"
#include "tests/unit/sim/job_builder.h"

namespace zplan {
namespace {

constexpr std::int64_t kMega = 1'000'000;
constexpr std::int64_t kMicrosecond = 1'000'000;  // ps

Cluster with_leaves(int nodes, int nodes_per_leaf, double oversubscription, bool rails = false,
                    bool scattered = false) {
  Cluster cluster = small_machine(nodes);
  cluster.network = {nodes_per_leaf, oversubscription, rails, scattered};
  return cluster;
}

Job job_of(int dp, int tp) {
  ClassBuilder program;
  program.stream(Lane::kCompute, 4);
  return make_job(program, dp, tp);
}

using Weights = std::map<std::string, double>;

Weights leaf_weights(const Wiring& wiring, const std::vector<LinkShare>& shares) {
  Weights result;
  for (const LinkShare& share : shares) {
    const CostLink& link = wiring.links()[share.link];
    if (link.kind.starts_with("leaf")) result[link.name] = share.weight;
  }
  return result;
}

Weights ring_on_leaves(const Cluster& cluster, int dp, int tp, const Group& group) {
  const Job job = job_of(dp, tp);
  Wiring wiring(job.mesh, cluster);
  const auto shares = wiring.shares({PatternKind::kRing, 0, 0, 0, group});
  return leaf_weights(wiring, shares);
}

std::int64_t gather_us(const Cluster& cluster, int dp, int tp, const Group& group) {
  ClassBuilder program;
  program.collective(CollectiveKind::kAllGather, group, 80 * kMega);
  const Job job = make_job(program, dp, tp);
  return CostModel(job, cluster).costs(0).front().alone.value / kMicrosecond;
}

TEST(WiringNetwork, ARingInOrderCrossesEachLeafsBorderOnce) {
  // Four nodes, two in a leaf: of the borders 0-1-2-3-0 two are between leaves.
  EXPECT_EQ(ring_on_leaves(with_leaves(4, 2, 2), 16, 1, testing_support::groups::kData),
            (Weights{{"leaf0 up", 1}, {"leaf0 down", 1}}));
  // Four groups side by side in each node, one per tensor index.
  EXPECT_EQ(ring_on_leaves(with_leaves(4, 2, 2), 4, 4, testing_support::groups::kData),
            (Weights{{"leaf0 up", 4}, {"leaf0 down", 4}}));
  EXPECT_EQ(ring_on_leaves(with_leaves(4, 4, 2), 16, 1, testing_support::groups::kData), Weights{});
  EXPECT_EQ(ring_on_leaves(with_leaves(4, 2, 2), 4, 4, testing_support::groups::kTensor),
            Weights{});
}

// 16 ranks on four nodes of two leaves, each with 1/15 for every other: 8 x 8 such parts leave a
// leaf; the two ports of a node take 4 x 12 of them.
TEST(WiringNetwork, AnAllToAllLoadsWhatLiesBetweenEveryTwoMembers) {
  const Job job = job_of(16, 1);
  const Cluster cluster = with_leaves(4, 2, 2);
  Wiring wiring(job.mesh, cluster);
  const std::vector<LinkShare> shares =
      wiring.shares({PatternKind::kPairs, 0, 0, 0, testing_support::groups::kData});
  const Weights leaves = leaf_weights(wiring, shares);
  ASSERT_EQ(leaves.size(), 2U);
  EXPECT_NEAR(leaves.at("leaf0 up"), 64.0 / 15, 1e-12);
  EXPECT_NEAR(leaves.at("leaf0 down"), 64.0 / 15, 1e-12);
  Weights most;
  for (const LinkShare& share : shares) {
    const CostLink& link = wiring.links()[share.link];
    most[link.kind] = std::max(most[link.kind], share.weight);
  }
  EXPECT_NEAR(most.at("NIC"), 24.0 / 15, 1e-12);
  EXPECT_NEAR(most.at(std::string(kPeerLink)), 3.0 / 15, 1e-12);
}

// Two groups of 4, each within a node: 3/4 of 80 MB over peer links of 100 GB/s. One group of 8
// over both: of each rank's 80 MB half leaves the node, whose ports take 10 GB/s for all four.
TEST(WiringNetwork, AnAllToAllTakesThePeerLinksOrThePorts) {
  const auto time_us = [](int dp, int tp, const Group& group) {
    ClassBuilder program;
    program.collective(CollectiveKind::kAllToAll, group, 80 * kMega);
    const Job job = make_job(program, dp, tp);
    const Cluster cluster = small_machine(2);
    return CostModel(job, cluster).costs(0).front().alone.value / kMicrosecond;
  };
  EXPECT_EQ(time_us(2, 4, testing_support::groups::kTensor), 600);
  EXPECT_EQ(time_us(8, 1, testing_support::groups::kData), 16'000);
}

TEST(WiringNetwork, WhereNodesAreScatteredEachNodesTrafficLeavesItsLeaf) {
  EXPECT_EQ(
      ring_on_leaves(with_leaves(4, 2, 2, false, true), 16, 1, testing_support::groups::kData),
      (Weights{{"leaf0 up", 2}, {"leaf0 down", 2}}));
}

TEST(WiringNetwork, RailsSplitWhatLeavesOverTheSwitchesOfThePorts) {
  EXPECT_EQ(ring_on_leaves(with_leaves(4, 2, 2, true), 16, 1, testing_support::groups::kData),
            (Weights{{"leaf0 rail0 up", 0.5}, {"leaf0 rail0 down", 0.5}}));
}

// Data groups of ranks of equal index stay on their rail. Five ranks of one group do not: the
// second node has one, whose port is the first, and half of what it meets is sent or taken by the
// other.
TEST(WiringNetwork, TrafficBetweenEqualPortsStaysOnItsRail) {
  EXPECT_EQ(ring_on_leaves(with_leaves(2, 2, 4, true), 2, 4, testing_support::groups::kData),
            Weights{});
  EXPECT_EQ(ring_on_leaves(with_leaves(2, 2, 4, true), 5, 1, testing_support::groups::kData),
            (Weights{{"leaf0 rail0 up", 0.5}, {"leaf0 rail0 down", 0.5}}));
  EXPECT_EQ(ring_on_leaves(with_leaves(2, 2, 4), 5, 1, testing_support::groups::kData), Weights{});
}

// Were a leaf of each node the same five ranks would load the one port of the second node's rail
// with all that they send, and the two of the first with half of it each.
TEST(WiringNetwork, EachLeafHasASwitchOfItsOwnForEachRail) {
  EXPECT_EQ(ring_on_leaves(with_leaves(2, 1, 4, true), 5, 1, testing_support::groups::kData),
            (Weights{{"leaf1 rail0 up", 1}, {"leaf1 rail0 down", 1}}));
}

TEST(WiringNetwork, NeighbouringStagesLoadTheUplinksWithAllTheirRanks) {
  ClassBuilder first, second;
  first.send(1, 10 * kMega);
  second.receive(0, 10 * kMega);
  const Job job = make_job({first, second}, 8);  // two nodes each
  const Cluster cluster = with_leaves(4, 2, 2);
  Wiring wiring(job.mesh, cluster);
  const auto shares = wiring.shares({PatternKind::kBetween, 0, 1, 0, {}});
  EXPECT_EQ(leaf_weights(wiring, shares), (Weights{{"leaf0 up", 8}, {"leaf1 down", 8}}));
  // 80 MB over 2 nodes x 10 GB/s / 2.
  const CostModel model(job, cluster);
  EXPECT_EQ(model.costs(0)[0].alone.value / kMicrosecond, 8'000);
}

// 75 MB leave each node; its two ports take 10 GB/s, its part of the uplinks 10 / ratio.
TEST(WiringNetwork, OversubscriptionSlowsScatteredRingsByItsRatioAndOrderedOnesHardly) {
  EXPECT_EQ(gather_us(with_leaves(4, 2, 1, false, true), 16, 1, testing_support::groups::kData),
            7'500);
  EXPECT_EQ(gather_us(with_leaves(4, 2, 2, false, true), 16, 1, testing_support::groups::kData),
            15'000);
  EXPECT_EQ(gather_us(with_leaves(4, 2, 4, false, true), 16, 1, testing_support::groups::kData),
            30'000);
  EXPECT_EQ(gather_us(with_leaves(4, 2, 2), 16, 1, testing_support::groups::kData), 7'500);
  EXPECT_EQ(gather_us(with_leaves(4, 2, 4), 16, 1, testing_support::groups::kData), 15'000);
}

TEST(WiringNetwork, ADomainOfSeveralNodesGathersOverItsPeerLinks) {
  Cluster cluster = small_machine(4);
  cluster.fast_link_domain = 8;
  // 70 MB at 100 GB/s within a domain of two nodes.
  EXPECT_EQ(gather_us(cluster, 8, 1, testing_support::groups::kData), 700);
  // Two domains: 75 MB leave each over the ports of eight ranks, 20 GB/s.
  EXPECT_EQ(gather_us(cluster, 16, 1, testing_support::groups::kData), 3'750);
}

TEST(WiringNetwork, BridgedPairsMeetOverTheirBridgeAndOthersInHostMemory) {
  Cluster pairs = small_machine(1);
  pairs.fast_link_domain = 2;
  EXPECT_EQ(gather_us(pairs, 2, 2, testing_support::groups::kTensor), 400) << "40 MB at 100 GB/s";
  // 60 MB per rank. From each switch one rank sends through the host, each way, at 10 GB/s.
  EXPECT_EQ(gather_us(pairs, 4, 1, testing_support::groups::kData), 6'000);
  // Ranks 0 and 2, beside 1 and 3: two of a switch, 40 MB each.
  EXPECT_EQ(gather_us(pairs, 2, 2, testing_support::groups::kData), 8'000);
}

// Twelve ranks on three nodes of 4. Of four groups of three the first and the last lie in a node,
// and the two between in two; likewise for stages whose ranks follow each other.
TEST(WiringNetwork, TheWidestGroupAndTheLongestWayDecide) {
  const Cluster cluster = small_machine(3);
  const auto groups = SharedWires(cluster).of(testing_support::mesh_of({.dp = 4, .tp = 3}));
  EXPECT_EQ(groups->reach(testing_support::groups::kTensor, 0).islands, 2);
  const auto stages =
      SharedWires(cluster).of(testing_support::mesh_of({.dp = 4, .pp = 3, .pipeline_first = true}));
  EXPECT_EQ(stages->way(0, 1), Way::kNetwork);
  EXPECT_EQ(stages->way(1, 2), Way::kNetwork);
}

TEST(WiringNetwork, RanksOfADomainOfSeveralNodesMeetOverPeerLinks) {
  Cluster cluster = small_machine(2);
  const auto mesh = testing_support::mesh_of({.dp = 4, .pp = 2});
  EXPECT_EQ(SharedWires(cluster).of(mesh)->way(0, 1), Way::kNetwork);
  cluster.fast_link_domain = 8;
  EXPECT_EQ(SharedWires(cluster).of(mesh)->way(0, 1), Way::kPeerLink);
}

TEST(WiringNetwork, AGroupWithAPartOfItsLinksMeetsOverThatPart) {
  Cluster cluster = small_machine(1);
  cluster.node.topology.peer_shape = {PeerKind::kTorus, 2, 2};
  const auto reach = [&](int dp, int tp) {
    return SharedWires(cluster)
        .of(testing_support::mesh_of({.dp = dp, .tp = tp}))
        ->reach(testing_support::groups::kTensor, 0)
        .peers;
  };
  EXPECT_EQ(reach(1, 4), PeerUse::kWhole);
  EXPECT_EQ(reach(2, 2), PeerUse::kPart);
  cluster.node.topology.gpu_peer.reset();
  EXPECT_EQ(reach(2, 2), PeerUse::kNone);
}

TEST(WiringNetwork, ATorusGivesARowHalfOfItsLinks) {
  Cluster cluster = small_machine(1);
  cluster.node.topology.peer_shape = {PeerKind::kTorus, 2, 2};
  EXPECT_EQ(gather_us(cluster, 4, 1, testing_support::groups::kData), 600) << "60 MB at 100 GB/s";
  EXPECT_EQ(gather_us(cluster, 2, 2, testing_support::groups::kTensor), 800) << "40 MB at 50 GB/s";
}

}  // namespace
}  // namespace zplan
