#include "hwprofiles/build_cluster.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "hwprofiles/peer_shape.h"
#include "planner/core/error.h"
#include "tests/support/error_message.h"

namespace zplan {
namespace {

using testing::Contains;
using testing::HasSubstr;

const HardwareCatalogue& catalogue() {
  static const HardwareCatalogue all = load_hardware_catalogue();
  return all;
}

BuiltCluster built(const HardwareRequest& request) {
  static const std::vector<HwProfile> profiles = node_catalogue();
  return build_cluster(catalogue(), profiles, request);
}

HwProfile profile(const char* name) { return load_cluster(name).node; }

constexpr BytesPerSecond gb(double rate) { return {rate * 1e9}; }

TEST(HardwareCatalogue, NamesTheNearestId) {
  EXPECT_EQ(catalogue().device("v100_sxm3_32gb").capability, 70);
  EXPECT_EQ(catalogue().system("dgx2").devices_per_node, 16);
  try {
    catalogue().device("a100_sxm4_80g");
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("a100_sxm4_80gb"));
  }
}

TEST(HardwareCatalogue, NoIdComesTwice) {
  const std::string one = R"({"id": "s", "name": "S", "device": "a100_sxm4_80gb",
"devices_per_node": {"value": 8, "source": "assumed", "ref": "t"},
"scale_up_domain": {"value": 8, "source": "assumed", "ref": "t"}})";
  const auto text = [](const std::string& systems) {
    return R"({"schema": "zplan.systems/1", "description": "d", "systems": [)" + systems + "]}";
  };
  EXPECT_EQ(parse_systems(text(one), "s.json").size(), 1u);
  const std::string message =
      testing_support::message_of([&] { parse_systems(text(one + ", " + one), "s.json"); });
  EXPECT_NE(message.find("/systems/1: expected one of each id, got \"s\" again"), std::string::npos)
      << message;
}

TEST(HardwareCatalogue, EveryDeviceAndSystemBuilds) {
  for (const DeviceFacts& device : catalogue().devices) {
    const Cluster cluster = built({.device = device.id, .gpus_per_node = 8, .nodes = 2}).cluster;
    EXPECT_EQ(cluster.devices(), 16) << device.id;
    EXPECT_EQ(cluster.node.topology.gpus(), 8) << device.id;
    EXPECT_EQ(cluster.node.device.sm_count, device.sm_count);
    EXPECT_NO_THROW(Topology(cluster.node.topology).routes_out(7)) << device.id;
  }
  for (const SystemFacts& system : catalogue().systems) {
    EXPECT_NO_THROW(catalogue().device(system.device));
    const Cluster cluster =
        built({.device = system.device, .system = system.id, .gpus_per_node = 2}).cluster;
    EXPECT_EQ(cluster.node.topology.gpus(), 2) << system.id;
  }
}

TEST(BuildCluster, ASystemWithAProfileIsThatProfile) {
  const Cluster cluster = built({.device = "v100_sxm3_32gb",
                                 .system = "dgx2",
                                 .gpus_per_node = 16,
                                 .nodes = 4,
                                 .scale_out = gb(6.25)})
                              .cluster;
  EXPECT_EQ(cluster.name, "dgx2x4");
  const HwProfile dgx2 = profile("dgx2");
  EXPECT_EQ(cluster.node.device.name, dgx2.device.name);
  EXPECT_EQ(cluster.node.topology.nic.capacity, dgx2.topology.nic.capacity);
  EXPECT_EQ(cluster.node.topology.nics(), dgx2.topology.nics());
}

TEST(BuildCluster, FewerDevicesCutTheNodeAndLeaveTheHostWhole) {
  const HwProfile dgx2 = profile("dgx2");
  const HwProfile one =
      built({.device = "v100_sxm3_32gb", .system = "dgx2", .gpus_per_node = 1}).cluster.node;
  EXPECT_EQ(one.devices_per_node, 1);
  EXPECT_EQ(one.topology.sockets, 1);
  EXPECT_EQ(one.topology.dram.capacity, dgx2.topology.dram.capacity * 2.0);
  EXPECT_EQ(one.host.memory, dgx2.host.memory);
  EXPECT_EQ(one.topology.nvme_drives, dgx2.topology.nvme_drives);
  const HwProfile eight =
      built({.device = "v100_sxm3_32gb", .system = "dgx2", .gpus_per_node = 8}).cluster.node;
  EXPECT_EQ(eight.topology.gpus_per_switch, 4);
  EXPECT_EQ(eight.topology.switches_per_socket, 2);
  EXPECT_EQ(eight.topology.sockets, 1);
}

TEST(BuildCluster, OtherSystemsAreBuiltFromDataSheets) {
  const HwProfile node =
      built({.device = "a100_sxm4_40gb", .system = "aws_p4d", .gpus_per_node = 8}).cluster.node;
  EXPECT_EQ(node.device.memory.value, 42305427865);
  EXPECT_EQ(node.device.memory_bandwidth, gb(1555));
  EXPECT_EQ(node.device.kernel_tables, "a100_sxm");
  EXPECT_EQ(node.device.gemm_efficiency, profile("dgx-a100").device.gemm_efficiency);
  EXPECT_EQ(node.host.memory.value, std::int64_t{1152} << 30);
}

TEST(BuildCluster, ProductsSettleAsTheSystemSays) {
  const auto sustained = [](const char* system) {
    return built({.device = "v100_sxm3_32gb", .system = system, .gpus_per_node = 8})
        .cluster.node.device.sustained;
  };
  const double settled = catalogue().system("dgx2h").settled;
  EXPECT_LT(settled, 1);
  EXPECT_DOUBLE_EQ(sustained("dgx2h"), sustained("dgx2") * settled);
}

TEST(BuildCluster, TheNetworkIsAsStatedElseTheSystemsElseTheUsual) {
  const auto rate = [](HardwareRequest request) {
    request.nodes = 2;
    const TopologySpec wires = built(request).cluster.node.topology;
    return wires.nic.capacity.value * wires.nics() / wires.gpus() / 1e9;
  };
  const HardwareRequest vtrain{
      .device = "a100_sxm4_80gb", .system = "vtrain_a100", .gpus_per_node = 8};
  EXPECT_NEAR(rate(vtrain), 12.5, 1e-9);
  HardwareRequest stated = vtrain;
  stated.scale_out = gb(20);
  EXPECT_NEAR(rate(stated), 20, 1e-9);
  EXPECT_NEAR(rate({.device = "h100_sxm5_80gb", .gpus_per_node = 8}), 50, 1e-9);
  EXPECT_THAT(built({.device = "h100_sxm5_80gb", .gpus_per_node = 8, .nodes = 2}).assumed,
              Contains(HasSubstr("50 GB/s")));
}

TEST(BuildCluster, ManyPortsOfADeviceAreOne) {
  const TopologySpec wires =
      built({.device = "h100_sxm5_80gb", .system = "aws_p5", .gpus_per_node = 8, .nodes = 2})
          .cluster.node.topology;
  EXPECT_EQ(wires.nics(), 8);
  EXPECT_NEAR(wires.nic.capacity.value, 50e9, 1);
}

TEST(BuildCluster, AJobTakesAnyPartOfARack) {
  const auto rack = [](int nodes) {
    return built({.device = "gb200_186gb",
                  .system = "gb200_nvl72",
                  .gpus_per_node = 4,
                  .nodes = nodes})
        .cluster;
  };
  for (const int trays : {2, 4, 8, 9, 16, 18}) {
    EXPECT_EQ(rack(trays).island(), 4 * trays);
    EXPECT_EQ(rack(trays).devices(), 4 * trays);
  }
  EXPECT_EQ(rack(32).island(), 64);   // two racks
  EXPECT_EQ(rack(36).island(), 72);   // two whole racks
  EXPECT_EQ(rack(256).island(), 64);  // of the 15 racks that would hold 1024 none divides them
  EXPECT_EQ(rack(576).island(), 72);
}

TEST(BuildCluster, TheTraysOfARackKeepTheirHosts) {
  const Cluster rack =
      built({.device = "gb200_186gb", .system = "gb200_nvl72", .gpus_per_node = 4, .nodes = 16})
          .cluster;
  EXPECT_EQ(rack.nodes, 16);
  EXPECT_EQ(rack.node.host.memory.value, std::int64_t{1870} << 30);
}

TEST(BuildCluster, ADeviceOfRacksAloneIsInOne) {
  const BuiltCluster rack = built({.device = "gb200_186gb", .gpus_per_node = 4, .nodes = 16});
  EXPECT_EQ(rack.cluster.island(), 64);
  EXPECT_THAT(rack.assumed, Contains(HasSubstr("GB200 NVL72 rack")));
  EXPECT_EQ(built({.device = "b200_sxm_180gb", .gpus_per_node = 8, .nodes = 8}).cluster.island(),
            8);
}

TEST(BuildCluster, CardsHaveNoPeerLink) {
  const HwProfile node = built({.device = "rtx_pro_6000", .gpus_per_node = 4}).cluster.node;
  EXPECT_FALSE(node.topology.gpu_peer);
  EXPECT_EQ(node.topology.gpu_pcie.capacity, gb(63));
}

// Chips of PCIe cards and of boards with peer links have the same tables of kernels.
TEST(BuildCluster, CardsDoNotMeetAsBoardsWithPeerLinksDo) {
  const auto collectives = [](const char* device) {
    return catalogue().device(device).collectives;
  };
  EXPECT_FALSE(collectives("a100_sxm4_80gb")->curves.empty());
  EXPECT_TRUE(collectives("a100_pcie_80gb")->curves.empty());
  for (const BytesPerSecond rate : collectives("a100_pcie_80gb")->constants.rates)
    EXPECT_LT(rate.value, catalogue().device("a100_pcie_80gb").host_link.value);
  EXPECT_TRUE(collectives("h800_sxm_80gb")->curves.empty()) << "links of 200, not of 450 GB/s";
  EXPECT_NEAR(collectives("h800_sxm_80gb")->constants.rates[2].value /
                  collectives("h100_sxm5_80gb")->constants.rates[2].value,
              200.0 / 450, 1e-9);
}

TEST(BuildCluster, TheHostCarriesWhatGeForceCardsSendTwice) {
  const CollectiveConstants& staged = catalogue().device("rtx_4090").collectives->constants;
  const CollectiveConstants direct =
      collective_profile("", {.pcie = catalogue().device("rtx_4090").host_link})->constants;
  EXPECT_FALSE(catalogue().device("rtx_4090").peer_access);
  EXPECT_NEAR(staged.rates[0].value, direct.rates[0].value / 2, 1);
  EXPECT_NEAR(staged.hop.value, direct.hop.value * 2, 1e-12);
  EXPECT_NEAR(staged.pair_base.value, direct.pair_base.value * 2, 1e-12);
  EXPECT_NEAR(staged.pair_low_base.value, direct.pair_low_base.value * 2, 1e-12);
}

// [DGX17] Of six links two at most lead to one GPU; boards of four have two to each other.
TEST(BuildCluster, PeerLinksRunAsOnTheBoard) {
  const auto share = [](const HardwareRequest& request, std::vector<int> gpus) {
    return ring_share(built(request).cluster.node.topology.peer_shape, gpus);
  };
  const HardwareRequest dgx1{.device = "v100_sxm2_16gb", .system = "dgx1_v100", .gpus_per_node = 8};
  EXPECT_DOUBLE_EQ(share(dgx1, {0, 1}), 1.0 / 6);
  EXPECT_DOUBLE_EQ(share(dgx1, {0, 1, 2, 3}), 4.0 / 6);
  EXPECT_DOUBLE_EQ(
      share({.device = "v100_sxm2_16gb", .system = "jean_zay_v100", .gpus_per_node = 4}, {0, 1}),
      1.0 / 3);
  const HardwareRequest quad{.device = "gh200_96", .gpus_per_node = 4};
  EXPECT_DOUBLE_EQ(share(quad, {0, 1}), 1.0 / 3) << "6 of 18 links";
  EXPECT_DOUBLE_EQ(share(quad, {0, 1, 2, 3}), 1);
  EXPECT_DOUBLE_EQ(share({.device = "gh200_96", .gpus_per_node = 2}, {0, 1}), 1) << "NVL2";
  EXPECT_DOUBLE_EQ(share({.device = "mi300x", .gpus_per_node = 8}, {3, 6}), 1.0 / 7);
}

// BigScience measured 54 Gbit/s as the bus bandwidth of one all-reduce over 16 nodes with four
// ports of 100 Gbit/s each.
TEST(BuildCluster, ASystemSaysWhatTheRingsOfAGroupReach) {
  const auto ring_out = [](const char* device, const char* system) {
    return built({.device = device, .system = system, .gpus_per_node = 4, .nodes = 16})
        .cluster.node.topology.ring_out;
  };
  EXPECT_EQ(ring_out("v100_sxm2_16gb", "jean_zay_v100")->value, 54e9 / 8);
  EXPECT_EQ(ring_out("v100_sxm3_32gb", "jean_zay_v100_32")->value, 54e9 / 8);
  EXPECT_FALSE(ring_out("v100_sxm3_32gb", "dgx2").has_value());
}

// [derived] Power above that of memory and leakage grows with the third power of the clock. Given:
// an H100 SXM settles 1.13 below the clock of its peak with 600 of 700 W.
TEST(BuildCluster, DevicesWithLessPowerSettleLower) {
  const auto sustained = [](const char* device) {
    return built({.device = device, .gpus_per_node = 8, .nodes = 1}).cluster.node.device.sustained;
  };
  const double sxm = 1.13, per_multiprocessor = 600.0 / 132;
  EXPECT_EQ(sustained("h100_sxm5_80gb"), sxm);
  EXPECT_NEAR(sustained("h100_hbm2e_96gb_meta"), sxm * std::cbrt(600.0 / 400), 0.01);
  const double clock = 1.83 / sxm * std::cbrt((350.0 - 80) / 114 / per_multiprocessor);
  EXPECT_NEAR(sustained("h100_pcie_80gb"), 1.62 / clock, 0.01) << "the peak is at 1.62 GHz";
}

TEST(BuildCluster, SystemsThatMeetOverEfaSayWhatItsMessagesTake) {
  const auto transport = [](const char* system) {
    return built({.device = "h100_sxm5_80gb", .system = system, .gpus_per_node = 8, .nodes = 2})
        .cluster.node.latency.transport.value;
  };
  EXPECT_EQ(transport("aws_p5"), 18e-6) << "measured below what the plugin states";
  EXPECT_EQ(transport("aws_p6_b200"), 35e-6);
  EXPECT_EQ(transport("dgx_h100"), 0);
}

}  // namespace
}  // namespace zplan
