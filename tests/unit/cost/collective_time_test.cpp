#include "planner/cost/collective_time.h"

#include <gtest/gtest.h>

#include <cmath>

namespace zplan {
namespace {

// As profiles of InfiniBand clusters say [NCCL].
constexpr LatencyProfile kNetwork{
    .collective_inter = {1e-6}, .per_log2_nodes = {5e-6}, .per_node = {2.7e-6}};
constexpr CollectiveKind kKinds[] = {CollectiveKind::kAllGather, CollectiveKind::kReduceScatter,
                                     CollectiveKind::kAllReduce, CollectiveKind::kBroadcast,
                                     CollectiveKind::kReduce,    CollectiveKind::kAllToAll};

std::shared_ptr<const CollectiveProfile> h100(std::string_view tables = "h100_sxm") {
  return collective_profile(tables, {.peer = {450e9}, .pcie = {63e9}});
}

// On nodes of 8 with a port of 50 GB/s for each GPU.
CollectiveTime on_nodes(CollectiveKind kind, std::int64_t bytes, int nodes) {
  const auto profile = h100();
  return collective_time({.kind = kind,
                          .bytes = {bytes},
                          .ranks = nodes * 8,
                          .nodes = nodes,
                          .local = {330e9},
                          .border = {8 * 50e9}},
                         profile.get(), kNetwork);
}

TEST(CollectiveTime, OfOneRankNothingMoves) {
  const auto profile = h100();
  const CollectiveTime time = collective_time(
      {.kind = CollectiveKind::kAllReduce, .bytes = {1 << 30}}, profile.get(), kNetwork);
  EXPECT_EQ(time.total(), Seconds{});
  EXPECT_EQ(time.moved, Bytes{});
}

TEST(CollectiveTime, GrowsWithTheBytes) {
  for (const CollectiveKind kind : kKinds) {
    for (const int nodes : {1, 2, 4, 64}) {
      double before = 0;
      for (std::int64_t bytes = 1 << 10; bytes <= std::int64_t{1} << 34; bytes *= 2) {
        const double now = on_nodes(kind, bytes, nodes).total().value;
        EXPECT_GE(now, before * (1 - 1e-12)) << name(kind) << " " << nodes << " " << bytes;
        before = now;
      }
    }
  }
}

TEST(CollectiveTime, GrowsWithTheNodes) {
  for (const CollectiveKind kind : kKinds) {
    for (const std::int64_t bytes : {1 << 15, 1 << 22, 1 << 30}) {
      double before = 0;
      for (int nodes = 1; nodes <= 2048; nodes *= 2) {
        const double now = on_nodes(kind, bytes, nodes).total().value;
        EXPECT_GT(now, before) << name(kind) << " " << nodes << " " << bytes;
        before = now;
      }
    }
  }
}

// A group that has only part of its links has trees of the same channels: whether switches add up
// does not depend on the group.
TEST(CollectiveTime, ATreeOfAGroupWithoutWholeLinksSendsAsMuchOutOfANode) {
  const auto profile = h100("");
  const auto over_two_nodes = [&](bool whole_links) {
    return collective_formula({.kind = CollectiveKind::kAllReduce,
                               .bytes = {20'000},
                               .ranks = 2 * 8,
                               .nodes = 2,
                               .local = {330e9},
                               .border = {8 * 50e9},
                               .whole_links = whole_links},
                              profile.get(), kNetwork);
  };
  EXPECT_EQ(over_two_nodes(false).method, "tree LL over nodes");
  EXPECT_EQ(over_two_nodes(false).method, over_two_nodes(true).method);
  EXPECT_EQ(over_two_nodes(false).crossing, over_two_nodes(true).crossing);
}

// Terms between nodes add to those within one.
TEST(CollectiveTime, ASmallAllReduceOverTwoNodesTakesLongerThanInOne) {
  const double one = on_nodes(CollectiveKind::kAllReduce, 100'000, 1).total().value;
  const double two = on_nodes(CollectiveKind::kAllReduce, 100'000, 2).total().value;
  EXPECT_GT(two, one + 1e-6 + 2 * 5e-6);
}

TEST(CollectiveTime, ManyNodesCostLevelsOfATreeNotHopsOfARing) {
  for (const CollectiveKind kind : kKinds) {
    if (kind == CollectiveKind::kAllToAll) continue;  // every pair meets
    if (kind == CollectiveKind::kAllGather || kind == CollectiveKind::kReduceScatter) continue;
    const CollectiveTime time = on_nodes(kind, 20'000, 2048);
    EXPECT_LT(time.total().value, 1e-3) << name(kind);
    EXPECT_EQ(time.method, "tree LL over nodes") << name(kind);
  }
}

// [NCCL] PAT, their tree, is for one GPU in each node.
TEST(CollectiveTime, GathersOfSeveralGpusInEachNodeAreRingsWhoseStartsGrowWithTheRanks) {
  const auto gathered = [](int nodes) {
    return on_nodes(CollectiveKind::kAllGather, 100'000, nodes);
  };
  for (const int nodes : {2, 32, 512}) EXPECT_TRUE(gathered(nodes).method.starts_with("ring"));
  EXPECT_NEAR(gathered(1024).total().value / gathered(512).total().value, 2, 0.1);
}

// Over EFA, whose messages take 75 us longer [OFI-NCCL].
CollectiveTime over_efa(const CollectiveProfile& profile, CollectiveKind kind, std::int64_t bytes,
                        int nodes) {
  LatencyProfile efa = kNetwork;
  efa.transport = {75e-6};
  return collective_formula({.kind = kind,
                             .bytes = {bytes},
                             .ranks = nodes * 8,
                             .nodes = nodes,
                             .local = {330e9},
                             .border = {8 * 45.5e9}},
                            &profile, efa);
}

// [NCCL] Of Simple's eight slots a part of a ring takes four (ALLGATHER_CHUNKSTEPS): two messages
// of 14 + 75 us are under way, so that each step in a node takes half of one beside its transfer.
TEST(CollectiveTime, ARingOverNodesTakesHalfAMessagePerStep) {
  const auto profile = h100("");
  for (const int nodes : {2, 4, 16}) {
    const CollectiveTime time = over_efa(*profile, CollectiveKind::kAllGather, 1 << 20, nodes);
    EXPECT_EQ(time.method, "ring Simple over nodes");
    EXPECT_GT(time.total().value, (nodes * 8 - 1) * 89e-6 / 2);
  }
  const CollectiveTime large = over_efa(*profile, CollectiveKind::kAllGather, 1L << 34, 2);
  const double moving = (1L << 34) * 15.0 / 16 / (8 * 45.5e9) + 14 * 89e-6 / 2;
  EXPECT_NEAR(large.transfer.value, moving, 0.01 * moving);
}

// all_reduce,fp32,..,32,4,b200_sxm of collectives_multinode_mlengineering.csv, in us.
TEST(CollectiveTime, AllReducesOverEfaAreThoseOfTheTable) {
  const auto profile = collective_profile("", {.peer = {900e9}, .pcie = {63e9}});
  for (const auto& [bytes, us] : {std::pair{1 << 20, 378.33},
                                  {1 << 24, 504.51},
                                  {1 << 26, 829.55},
                                  {1 << 28, 2270.3},
                                  {1 << 30, 5747.1}}) {
    const double time = over_efa(*profile, CollectiveKind::kAllReduce, bytes, 4).total().value;
    EXPECT_NEAR(std::log(time * 1e6 / us), 0, std::log(1.45)) << bytes << " " << time;
  }
}

TEST(CollectiveTime, OfNodesThatAreNoPowerOfTwoATreeHasAPartOfALevel) {
  const auto latency = [](int nodes) {
    return on_nodes(CollectiveKind::kBroadcast, 100'000, nodes).latency.value;
  };
  const double level = latency(2048) - latency(1024);
  EXPECT_NEAR(level, 5e-6, 1e-12);
  EXPECT_NEAR(latency(1536) - latency(1024), level * std::log2(1.5), 1e-12);
}

TEST(CollectiveTime, ConstantsOfAnotherDeviceDoNotExceedTheLinksOfThisOne) {
  const auto pcie = collective_profile("", {.peer = {0}, .pcie = {63e9}});
  ASSERT_FALSE(pcie->own_constants);
  const CollectiveTime time = collective_time({.kind = CollectiveKind::kAllGather,
                                               .bytes = {1 << 30},
                                               .ranks = 2,
                                               .local = {1e9},
                                               .whole_links = true},
                                              pcie.get(), kNetwork);
  EXPECT_GE(time.transfer.value, (1 << 29) / 1e9);
}

TEST(CollectiveTime, LatencyGrowsWithTheGroup) {
  const auto profile = h100("");
  const auto start = [&](int ranks) {
    return collective_formula(
               {.kind = CollectiveKind::kAllGather, .bytes = {1 << 15}, .ranks = ranks},
               profile.get(), kNetwork)
        .latency.value;
  };
  EXPECT_NEAR((start(8) - start(4)) / (start(4) - start(2)), 2, 1e-9) << "one hop per rank";
}

// Between the measured groups the rate lies straight over the logarithm of their size.
TEST(CollectiveTime, RingsTakeTheRateOfTheirGroup) {
  CollectiveProfile profile = *h100("");
  profile.constants.rates = {{{100e9}, {250e9}, {300e9}}};
  profile.constants.own = profile.constants.root = 0;
  constexpr std::int64_t kBytes = std::int64_t{1} << 36;
  const auto rate = [&](int ranks) {
    const CollectiveTime time =
        collective_formula({.kind = CollectiveKind::kAllGather, .bytes = {kBytes}, .ranks = ranks},
                           &profile, kNetwork);
    return static_cast<double>(time.moved.value) / time.transfer.value / 1e9;
  };
  EXPECT_NEAR(rate(2), 100, 1e-3);
  EXPECT_NEAR(rate(3), 100 + 150 * (std::log2(3) - 1), 1e-3);
  EXPECT_NEAR(rate(4), 250, 1e-3);
  EXPECT_NEAR(rate(6), 250 + 50 * (std::log2(6) - 2), 1e-3);
  EXPECT_NEAR(rate(8), 300, 1e-3);
}

TEST(CollectiveTime, LargeAllReducesOfEightUseTheSwitchesAndThoseOfFourDoNot) {
  const auto profile = h100("");
  const auto time = [&](int ranks) {
    return collective_formula(
        {.kind = CollectiveKind::kAllReduce, .bytes = {1 << 30}, .ranks = ranks}, profile.get(),
        kNetwork);
  };
  EXPECT_EQ(time(8).method, "NVLS");
  EXPECT_EQ(time(4).method, "ring Simple");
  EXPECT_EQ(time(8).moved, Bytes{(std::int64_t{1} << 30) * 9 / 8});
}

// Round constants, so that expected times can be written down: rates of 100 GB/s whatever the size
// of the group; the low protocol reaches half of them and starts first.
CollectiveProfile round_profile() {
  CollectiveProfile profile;
  CollectiveConstants& c = profile.constants;
  c.low_base = {1e-6};
  c.low_hop = {0.1e-6};
  c.low_share = 0.5;
  c.base = {10e-6};
  c.hop = {1e-6};
  c.rates.fill({100e9});
  c.pair_low_base = {1.1e-6};
  c.pair_low_share = 0.5;
  c.pair_base = {11e-6};
  c.pair_rates.fill({100e9});
  return profile;
}

CollectiveTime by_formula(const CollectiveCall& call, const CollectiveProfile& profile,
                          const LatencyProfile& latency = {}) {
  return collective_formula(call, &profile, latency);
}

// 800 MB in 8 parts of 100: 7 are sent at 100 GB/s, the own one is copied, which takes half as long
// as a part that is sent.
TEST(CollectiveTime, OfAllPartsTheOwnOneIsCopied) {
  CollectiveProfile profile = round_profile();
  const auto transfer = [&](CollectiveKind kind) {
    return by_formula({.kind = kind, .bytes = {800'000'000}, .ranks = 8}, profile).transfer.value;
  };
  EXPECT_NEAR(transfer(CollectiveKind::kAllGather), 7e-3, 1e-12);
  EXPECT_NEAR(transfer(CollectiveKind::kAllToAll), 7e-3, 1e-12);
  profile.constants.own = 0.5;
  profile.constants.pair_own = 0.5;
  EXPECT_NEAR(transfer(CollectiveKind::kAllGather), 7.5e-3, 1e-12);
  EXPECT_NEAR(transfer(CollectiveKind::kReduceScatter), 7.5e-3, 1e-12);
  EXPECT_NEAR(transfer(CollectiveKind::kAllToAll), 7.5e-3, 1e-12);
  EXPECT_NEAR(transfer(CollectiveKind::kAllReduce), 14e-3, 1e-12) << "has a constant of its own";
  EXPECT_NEAR(transfer(CollectiveKind::kBroadcast), 8e-3, 1e-12) << "has no own part";
  profile.constants.own_all_reduce = 1.5;
  EXPECT_NEAR(transfer(CollectiveKind::kAllReduce), 15.5e-3, 1e-12);
}

// Of 8 kB 7 are sent: at half of 100 GB/s 0.14 us, after 7 hops of 0.1 us.
TEST(CollectiveTime, TheLowProtocolStartsSoonerAndReachesItsShareOfTheRate) {
  const CollectiveTime time = by_formula(
      {.kind = CollectiveKind::kAllGather, .bytes = {8000}, .ranks = 8}, round_profile());
  EXPECT_EQ(time.method, "ring LL128");
  EXPECT_NEAR(time.latency.value, 1e-6 + 7 * 0.1e-6, 1e-15);
  EXPECT_NEAR(time.transfer.value, 0.14e-6, 1e-15);
}

CollectiveTime gathered_by_two(std::int64_t bytes) {
  return by_formula({.kind = CollectiveKind::kAllGather,
                     .bytes = {bytes},
                     .ranks = 2,
                     .nodes = 2,
                     .border = {1e9}},
                    round_profile(), {.per_log2_nodes = {1}, .per_node = {3e-6}});
}

// [NCCL] Half of a line of LL is data, 120 of the 128 bytes of one of LL128. 2 ranks on 2 nodes:
// half of 12 kB and of 160 kB at 1 GB/s.
TEST(CollectiveTime, TheLowProtocolsSendFlagsBetweenNodes) {
  EXPECT_EQ(gathered_by_two(12'000).method, "ring LL over nodes");
  EXPECT_NEAR(gathered_by_two(12'000).transfer.value, 6e-6 * 2, 1e-15);
  EXPECT_EQ(gathered_by_two(160'000).method, "ring LL128 over nodes");
  EXPECT_NEAR(gathered_by_two(160'000).transfer.value, 80e-6 * 128 / 120, 1e-15);
}

// 1,024 nodes of 2: 1,023 steps are between nodes, of whose messages of LL all but the first pass
// while parts move.
TEST(CollectiveTime, MessagesOfALongRingOfLowProtocolsPassWhilePartsMove) {
  const auto gathered = [](BytesPerSecond border) {
    return by_formula({.kind = CollectiveKind::kAllGather,
                       .bytes = {2048 * 1000},
                       .ranks = 2048,
                       .nodes = 1024,
                       .border = border},
                      round_profile(), {.per_node = {3e-6}});
  };
  const CollectiveTime fast = gathered({40e9}), slow = gathered({1e9});
  EXPECT_EQ(fast.method, "ring LL over nodes");
  EXPECT_NEAR(fast.latency.value, 1e-6 + 1024 * 0.1e-6 + 3e-6, 1e-12);
  EXPECT_NEAR(fast.transfer.value, 1022 * 3e-6, 1e-12);
  EXPECT_EQ(slow.method, "ring LL over nodes");
  EXPECT_NEAR(slow.transfer.value, 2047 * 1000 / 0.5e9, 1e-12);
}

// [NCCL] LL128 starts 7.4 us after LL, and its message in a ring takes 1.3 us longer.
TEST(CollectiveTime, ProtocolsHaveMessagesOfTheirOwn) {
  EXPECT_NEAR(gathered_by_two(12'000).latency.value, 1e-6 + 3e-6, 1e-15);
  EXPECT_NEAR(gathered_by_two(160'000).latency.value, 1e-6 + 7.4e-6 + 3e-6 + 1.3e-6, 1e-15);
}

// Whatever the network: LL reaches 30 GB/s over two nodes and 20 over more [NCCL], LL128 16.3 GB/s
// in each of the four channels of a port.
TEST(CollectiveTime, TheLowProtocolsHaveALimitOfTheirOwnBetweenNodes) {
  const auto profile = h100("");
  const auto gathered = [&](std::int64_t bytes, int nodes) {
    return by_formula({.kind = CollectiveKind::kAllGather,
                       .bytes = {bytes},
                       .ranks = 8 * nodes,
                       .nodes = nodes,
                       .border = {1e12},
                       .ports = 1},
                      *profile);
  };
  EXPECT_EQ(gathered(160'000, 2).method, "ring LL over nodes");
  EXPECT_NEAR(gathered(160'000, 2).transfer.value, 150'000 / 30e9, 1e-12);
  EXPECT_EQ(gathered(320'000, 4).method, "ring LL over nodes");
  EXPECT_NEAR(gathered(320'000, 4).transfer.value, 310'000 / 20e9, 1e-12);
  EXPECT_EQ(gathered(4'800'000, 2).method, "ring LL128 over nodes");
  EXPECT_NEAR(gathered(4'800'000, 2).transfer.value, 4'500'000 / (4 * 16.3e9), 1e-12);
}

// The best number of pieces costs root x sqrt(us of moving), in us: of 10 ms 2 x 100 us.
TEST(CollectiveTime, PiecesOfATransferTakeTheirTimeToStart) {
  CollectiveProfile profile = round_profile();
  profile.constants.root = 2;
  const CollectiveTime time = by_formula(
      {.kind = CollectiveKind::kBroadcast, .bytes = {1'000'000'000}, .ranks = 2}, profile);
  EXPECT_EQ(time.method, "ring Simple");
  EXPECT_NEAR(time.transfer.value, 10e-3 + 200e-6, 1e-12);
}

// 4 nodes of 2: of 7 steps 3 are between nodes, of an all-reduce's 14 six. With Simple one of them
// costs per_node and 11.3 us [NCCL], the first of all inter.
TEST(CollectiveTime, StepsBetweenNodesAreNoHopsWithinOne) {
  constexpr LatencyProfile kRing{
      .collective_inter = {20e-6}, .per_log2_nodes = {1}, .per_node = {3e-6}};
  const auto latency = [&](CollectiveKind kind) {
    const CollectiveTime time =
        by_formula({.kind = kind, .bytes = {1 << 30}, .ranks = 8, .nodes = 4, .border = {200e9}},
                   round_profile(), kRing);
    EXPECT_EQ(time.method, "ring Simple over nodes");
    return time.latency.value;
  };
  EXPECT_NEAR(latency(CollectiveKind::kAllGather), 10e-6 + 4e-6 + 20e-6 + 3 * 14.3e-6, 1e-12);
  EXPECT_NEAR(latency(CollectiveKind::kAllReduce), 10e-6 + 8e-6 + 20e-6 + 6 * 14.3e-6, 1e-12);
}

// 4 nodes of 2: a chain of 2 has one hop, a tree over 4 nodes two levels; up and down for an
// all-reduce, which sends 2 x 1 GB at 0.92 of 100 GB/s. With Simple a level costs per_log2_nodes
// and 9 us [NCCL]. An all-reduce has 512 KiB of each of 4 channels in each of its levels.
TEST(CollectiveTime, ATreeHasTheHopsOfItsChainsAndItsLevelsInEachPass) {
  constexpr LatencyProfile kTree{
      .collective_inter = {20e-6}, .per_log2_nodes = {3e-6}, .per_node = {1}};
  const auto time = [&](CollectiveKind kind) {
    const CollectiveTime found = by_formula(
        {.kind = kind, .bytes = {1'000'000'000}, .ranks = 8, .nodes = 4, .border = {1e12}},
        round_profile(), kTree);
    EXPECT_EQ(found.method, "tree Simple over nodes");
    return found;
  };
  const CollectiveTime reduce = time(CollectiveKind::kAllReduce);
  EXPECT_NEAR(reduce.latency.value, 10e-6 + 2e-6 + 20e-6 + 4 * 12e-6, 1e-12);
  EXPECT_NEAR(reduce.transfer.value, 20e-3 / 0.92 + 4 * (2 << 20) / 1e12, 1e-12);
  const CollectiveTime broadcast = time(CollectiveKind::kBroadcast);
  EXPECT_NEAR(broadcast.latency.value, 10e-6 + 1e-6 + 20e-6 + 2 * 12e-6, 1e-12);
  EXPECT_NEAR(broadcast.transfer.value, 10e-3 / 0.92, 1e-12);
}

TEST(CollectiveTime, ATreeReaches092OfARingsRateBetweenNodesToo) {
  constexpr LatencyProfile kTree{.per_node = {1}};
  const CollectiveTime time = by_formula({.kind = CollectiveKind::kBroadcast,
                                          .bytes = {1'000'000'000},
                                          .ranks = 4,
                                          .nodes = 2,
                                          .border = {10e9}},
                                         round_profile(), kTree);
  EXPECT_EQ(time.method, "tree Simple over nodes") << "of two nodes, too";
  EXPECT_NEAR(time.transfer.value, 100e-3 / 0.92, 1e-12);
}

TEST(CollectiveTime, OverTheBorderABroadcastSendsAllOfItsBuffer) {
  constexpr LatencyProfile kRing{.per_log2_nodes = {1}};
  const CollectiveTime time = by_formula({.kind = CollectiveKind::kBroadcast,
                                          .bytes = {1'000'000'000},
                                          .ranks = 4,
                                          .nodes = 2,
                                          .border = {10e9}},
                                         round_profile(), kRing);
  EXPECT_EQ(time.method, "ring Simple over nodes");
  EXPECT_NEAR(time.transfer.value, 100e-3, 1e-12);
  EXPECT_EQ(time.crossing, Bytes{1'000'000'000});
}

// 800 MB go up at 100 GB/s and come back as sums meanwhile. Each of two nodes sends them once at
// 40 GB/s, half of them as the root of a tree; of four the busiest one sends them twice. A level
// costs per_log2_nodes and 15.9 us [NCCL]; two trees have 8 x 16 chunks of 128 KiB in each, of four
// nodes and more of 64 KiB.
TEST(CollectiveTime, SwitchesThatAddUpTakeABufferAndTwoTreesSendIt) {
  constexpr LatencyProfile kTree{
      .collective_inter = {20e-6}, .per_log2_nodes = {3e-6}, .per_node = {1}};
  CollectiveProfile profile = round_profile();
  profile.constants.nvls = {100e9};
  profile.constants.nvls_base = {5e-6};
  CollectiveCall call{
      .kind = CollectiveKind::kAllReduce, .bytes = {800'000'000}, .ranks = 8, .border = {40e9}};
  const CollectiveTime near = by_formula(call, profile, kTree);
  EXPECT_EQ(near.method, "NVLS");
  EXPECT_NEAR(near.latency.value, 5e-6, 1e-15);
  EXPECT_NEAR(near.transfer.value, 8e-3, 1e-12);
  EXPECT_EQ(near.moved, Bytes{900'000'000}) << "and the sum of a part for the others";
  call.nodes = 2;
  call.ranks = 16;
  const CollectiveTime far = by_formula(call, profile, kTree);
  EXPECT_EQ(far.method, "NVLS tree over nodes");
  EXPECT_NEAR(far.latency.value, 5e-6 + 20e-6 + 2 * 18.9e-6, 1e-12);
  EXPECT_NEAR(far.transfer.value, (800e6 + (16 << 20)) / 40e9, 1e-12);
  EXPECT_EQ(far.crossing, Bytes{800'000'000});
  call.nodes = 4;
  call.ranks = 32;
  EXPECT_NEAR(by_formula(call, profile, kTree).transfer.value, (2 * 800e6 + 2 * (8 << 20)) / 40e9,
              1e-12);
}

// 64 MiB over two nodes of 8: at 100 GB/s in a node, 0.92 of it, and pieces of 2 x sqrt(8 x us).
TEST(CollectiveTime, OverNodesSwitchesThatAddUpTakeTheTimeOfTheSlowerOfNodeAndNetwork) {
  CollectiveProfile profile = round_profile();
  profile.constants.nvls = {100e9};
  profile.constants.nvls_root = 2;
  const CollectiveTime time = by_formula({.kind = CollectiveKind::kAllReduce,
                                          .bytes = {64 << 20},
                                          .ranks = 16,
                                          .nodes = 2,
                                          .border = {400e9}},
                                         profile, kNetwork);
  EXPECT_EQ(time.method, "NVLS tree over nodes");
  const double moving = (64 << 20) / 100e9;
  EXPECT_NEAR(time.transfer.value,
              moving / 0.92 + 2e-6 * std::sqrt(8 * moving * 1e6) + (16 << 20) / 400e9, 1e-12);
}

// A part of each GPU is cut into pieces: what that takes grows with the root of their number.
TEST(CollectiveTime, PiecesOfSwitchesThatAddUpGrowWithTheGpus) {
  CollectiveProfile profile = round_profile();
  profile.constants.nvls = {100e9};
  profile.constants.nvls_root = 2;
  const auto transfer = [&](int ranks) {
    return by_formula(
               {.kind = CollectiveKind::kAllReduce, .bytes = {1'000'000'000}, .ranks = ranks},
               profile)
        .transfer.value;
  };
  EXPECT_NEAR(transfer(16), 10e-3 + 2e-6 * std::sqrt(16 * 10e3), 1e-12);
  EXPECT_NEAR(transfer(64), 10e-3 + 2e-6 * std::sqrt(64 * 10e3), 1e-12);
}

// A tree has all of its links where switches do not add up. 16 channels of 512 KiB fill 12 further
// stages in the nodes and the two levels between them.
TEST(CollectiveTime, TwoTreesOverTwoNodesSendABufferOnce) {
  constexpr LatencyProfile kTree{.collective_inter = {20e-6}, .per_node = {1}};
  CollectiveProfile profile = round_profile();
  CollectiveCall call{.kind = CollectiveKind::kAllReduce,
                      .bytes = {800'000'000},
                      .ranks = 16,
                      .nodes = 2,
                      .border = {4e9}};
  const CollectiveTime plain = by_formula(call, profile, kTree);
  EXPECT_EQ(plain.method, "tree Simple over nodes");
  const double filling = 12 * (8 << 20) / 100e9 + 2 * (8 << 20) / 4e9;
  EXPECT_NEAR(plain.transfer.value, 800e6 / 4e9 / 0.92 + filling, 1e-12);
  profile.constants.nvls = {1e9};  // slower than any tree
  EXPECT_NEAR(by_formula(call, profile, kTree).transfer.value, 2 * 800e6 / 4e9 / 0.92 + filling,
              1e-12);
}

TEST(CollectiveTime, SwitchesAddUpFromFiveGpusOnAndForWholeLinksOnly) {
  CollectiveProfile profile = round_profile();
  profile.constants.nvls = {1e12};
  const auto method = [&](int ranks, bool whole) {
    return by_formula({.kind = CollectiveKind::kAllReduce,
                       .bytes = {1 << 30},
                       .ranks = ranks,
                       .whole_links = whole},
                      profile)
        .method;
  };
  EXPECT_EQ(method(4, true), "ring Simple");
  EXPECT_EQ(method(5, true), "NVLS");
  EXPECT_EQ(method(5, false), "ring Simple");
}

// A curve from 1 MiB to 1 GiB that is twice the formula's time at its ends.
TEST(CollectiveTime, BeyondTheMeasuredSizesTheFormulasRatioAtTheEndCounts) {
  CollectiveProfile profile = round_profile();
  CollectiveCall call{.kind = CollectiveKind::kAllGather, .ranks = 8};
  CollectiveCurve& curve = profile.curves[{MeasuredCollective::kAllGather, 8, 1}];
  for (const std::int64_t bytes : {1 << 20, 1 << 30}) {
    call.bytes = {bytes};
    curve.add(static_cast<double>(bytes), by_formula(call, profile).total() * 2);
  }
  for (const std::int64_t bytes : {std::int64_t{1} << 12, std::int64_t{1} << 36}) {
    call.bytes = {bytes};
    const double measured = collective_time(call, &profile, {}).total().value;
    EXPECT_NEAR(measured / by_formula(call, profile).total().value, 2, 1e-6) << bytes;
  }
  call.whole_links = false;
  EXPECT_EQ(collective_time(call, &profile, {}).total(), by_formula(call, profile).total())
      << "measured times are of whole links";
}

// [Patarasuk09]
TEST(CollectiveTime, CountsBytesAsRingsDo) {
  constexpr Bytes kFull{800};
  EXPECT_EQ(sent_bytes(CollectiveKind::kAllGather, kFull, 8), Bytes{700});
  EXPECT_EQ(sent_bytes(CollectiveKind::kReduceScatter, kFull, 8), Bytes{700});
  EXPECT_EQ(sent_bytes(CollectiveKind::kAllReduce, kFull, 8), Bytes{1400});
  EXPECT_EQ(sent_bytes(CollectiveKind::kBroadcast, kFull, 8), kFull);
  EXPECT_EQ(sent_bytes(CollectiveKind::kAllToAll, kFull, 8), Bytes{700});
  const CollectiveTime time = on_nodes(CollectiveKind::kAllGather, std::int64_t{1} << 34, 4);
  EXPECT_EQ(time.moved, Bytes{(std::int64_t{1} << 34) * 31 / 32});
  EXPECT_EQ(time.crossing, time.moved);
}

TEST(CollectiveTime, LargeTransfersTakeTheSlowerOfNodeAndNetwork) {
  constexpr std::int64_t kBytes = std::int64_t{1} << 36;
  const double seconds = on_nodes(CollectiveKind::kAllGather, kBytes, 2).total().value;
  EXPECT_NEAR(seconds / (kBytes * 15 / 16 / 360e9), 1, 0.05) << "the ring within a node";
  const auto profile = h100();
  const double slow = collective_time({.kind = CollectiveKind::kAllGather,
                                       .bytes = {kBytes},
                                       .ranks = 16,
                                       .nodes = 2,
                                       .border = {100e9}},
                                      profile.get(), kNetwork)
                          .total()
                          .value;
  EXPECT_NEAR(slow / (kBytes * 15 / 16 / 100e9), 1, 0.01) << "the network";
}

// Without a profile of the device: 800 MB in 8 parts of 100. Seven go over the peer link of
// 100 GB/s; on two nodes of 4 three do, and 4 x 4 parts leave the node at 40 GB/s, which takes
// longer.
TEST(CollectiveTime, AnAllToAllMovesEachPartOnce) {
  constexpr LatencyProfile kLatency{
      .collective_intra = {5e-6}, .collective_inter = {20e-6}, .per_node = {1e-6}};
  CollectiveCall call{.kind = CollectiveKind::kAllToAll,
                      .bytes = {800'000'000},
                      .ranks = 8,
                      .local = {100e9},
                      .border = {40e9}};
  const CollectiveTime near = collective_time(call, nullptr, kLatency);
  EXPECT_EQ(near.method, "pairs");
  EXPECT_NEAR(near.total().value, 5e-6 + 7e-3, 1e-12);
  EXPECT_EQ(near.moved, Bytes{700'000'000});
  call.nodes = 2;
  const CollectiveTime far = collective_time(call, nullptr, kLatency);
  EXPECT_EQ(far.method, "pairs over nodes");
  EXPECT_NEAR(far.total().value, 5e-6 + 20e-6 + 1e-6 + 40e-3, 1e-12);
  EXPECT_EQ(far.moved, Bytes{300'000'000});
  EXPECT_EQ(far.crossing, Bytes{1'600'000'000});
  call.ranks = call.nodes = 8;  // nothing within a node
  EXPECT_NEAR(collective_time(call, nullptr, kLatency).total().value, 5e-6 + 27e-6 + 17.5e-3,
              1e-12);
}

TEST(CollectiveTime, AnAllToAllOverNodesStartsAsMuchLaterAsASendDoes) {
  const CollectiveCall call{
      .kind = CollectiveKind::kAllToAll, .bytes = {8}, .ranks = 8, .nodes = 2, .border = {40e9}};
  const auto start = [&](Seconds p2p_inter) {
    return by_formula(call, round_profile(),
                      {.p2p_intra = {10e-6}, .p2p_inter = p2p_inter, .per_node = {1e-6}})
        .latency.value;
  };
  EXPECT_NEAR(start({10e-6}), 1.1e-6 + 1e-6, 1e-15) << "a message";
  EXPECT_NEAR(start({25e-6}), 1.1e-6 + 15e-6, 1e-15);
}

// 100 MB at 100 GB/s; over nodes out of the one port of a member, at 40 GB/s, after a message.
TEST(CollectiveTime, AShiftMovesTheWholeBufferOnce) {
  constexpr LatencyProfile kLatency{
      .collective_intra = {5e-6}, .collective_inter = {20e-6}, .per_node = {1e-6}};
  CollectiveCall call{.kind = CollectiveKind::kShift,
                      .bytes = {100'000'000},
                      .ranks = 8,
                      .local = {100e9},
                      .border = {40e9}};
  for (const int ranks : {2, 8}) {
    call.ranks = ranks;
    const CollectiveTime near = collective_time(call, nullptr, kLatency);
    EXPECT_EQ(near.method, "shift");
    EXPECT_NEAR(near.total().value, 5e-6 + 1e-3, 1e-12) << ranks;
    EXPECT_EQ(near.moved, call.bytes);
  }
  call.nodes = 2;
  const CollectiveTime far = collective_time(call, nullptr, kLatency);
  EXPECT_EQ(far.method, "shift over nodes");
  EXPECT_NEAR(far.total().value, 26e-6 + 2.5e-3, 1e-12);
  EXPECT_EQ(far.crossing, call.bytes);
  EXPECT_EQ(sent_bytes(CollectiveKind::kShift, call.bytes, 8), call.bytes);
}

// 512 MiB among 8 of one node take 1.4904 ms as measured (hwprofiles/kernels); on more nodes the
// formula's ratio counts.
TEST(CollectiveTime, AMeasuredAllToAllStands) {
  const double seconds = on_nodes(CollectiveKind::kAllToAll, 1 << 29, 1).total().value;
  EXPECT_NEAR(seconds, 1.4904e-3, 1e-8);
  const double two = on_nodes(CollectiveKind::kAllToAll, 1 << 29, 2).total().value;
  EXPECT_NEAR(two, 8 * 0.5 * (1 << 29) / 400e9, 0.2e-3) << "half of what each of 8 has";
}

TEST(CollectiveTime, AGroupThatWasNotMeasuredIsBetweenThoseThatWere) {
  const auto profile = h100();
  for (std::int64_t bytes = 1 << 15; bytes <= 1 << 30; bytes *= 2) {
    const auto seconds = [&](int ranks) {
      return collective_time({.kind = CollectiveKind::kAllGather, .bytes = {bytes}, .ranks = ranks},
                             profile.get(), kNetwork)
          .total()
          .value;
    };
    EXPECT_LT(seconds(2), seconds(3) * 1.02) << bytes;
    EXPECT_LT(seconds(6), seconds(8) * 1.02) << bytes;
  }
}

// A profile with times of all-reduces of 1 MiB and 1 GiB on two nodes of 8.
std::shared_ptr<const CollectiveProfile> measured_over_nodes(Seconds small, Seconds large) {
  auto profile = std::make_shared<CollectiveProfile>(*h100());
  CollectiveCurve& curve = profile->curves[{MeasuredCollective::kAllReduce, 16, 2}];
  curve.add(1 << 20, small);
  curve.add(1 << 30, large);
  curve.settle();
  return profile;
}

CollectiveCall all_reduce(std::int64_t bytes, int ranks, int nodes) {
  return {.kind = CollectiveKind::kAllReduce,
          .bytes = {bytes},
          .ranks = ranks,
          .nodes = nodes,
          .border = {400e9},
          .border_alone = {400e9}};
}

TEST(CollectiveTime, TimesMeasuredOverNodesStandAndSpeakOfOtherNodesInTheFormulasRatio) {
  const auto profile = measured_over_nodes({300e-6}, {9e-3});
  const auto seconds = [&](std::int64_t bytes, int nodes, const CollectiveProfile* known) {
    return collective_time(all_reduce(bytes, nodes * 8, nodes), known, kNetwork).total().value;
  };
  EXPECT_NEAR(seconds(1 << 20, 2, profile.get()), 300e-6, 1e-12);
  EXPECT_NEAR(seconds(1 << 30, 2, profile.get()), 9e-3, 1e-9);
  const auto plain = h100();
  for (const std::int64_t bytes : {1 << 18, 1 << 20, 1 << 30}) {
    EXPECT_NEAR(seconds(bytes, 16, profile.get()) / seconds(bytes, 2, profile.get()),
                seconds(bytes, 16, plain.get()) / seconds(bytes, 2, plain.get()), 1e-9);
  }
  EXPECT_EQ(seconds(1 << 20, 1, profile.get()), seconds(1 << 20, 1, plain.get()));
}

TEST(CollectiveTime, OverNodesOthersOnTheNetworkSlowWhatWasMeasuredAlone) {
  const auto profile = measured_over_nodes({300e-6}, {9e-3});
  CollectiveCall call = all_reduce(1 << 30, 16, 2);
  call.border = {50e9};
  const auto plain = h100();
  const double shared = collective_time(call, profile.get(), kNetwork).total().value;
  const double formula_shared = collective_time(call, plain.get(), kNetwork).total().value;
  call.border = call.border_alone;
  const double formula_alone = collective_time(call, plain.get(), kNetwork).total().value;
  EXPECT_NEAR(shared / 9e-3, formula_shared / formula_alone, 1e-9);
  EXPECT_GT(shared, 4 * 9e-3);
}

TEST(CollectiveTime, MeasuredBroadcastsStand) {
  auto profile = std::make_shared<CollectiveProfile>(*h100());
  profile->curves[{MeasuredCollective::kBroadcast, 8, 1}].add(1 << 20, {70e-6});
  const CollectiveTime time =
      collective_time({.kind = CollectiveKind::kBroadcast, .bytes = {1 << 20}, .ranks = 8},
                      profile.get(), kNetwork);
  EXPECT_NEAR(time.total().value, 70e-6, 1e-12);
}

}  // namespace
}  // namespace zplan
