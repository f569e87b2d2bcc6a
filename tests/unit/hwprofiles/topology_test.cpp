// The wires of a node: routes, shared links, and the rates of a DGX-2 [Rajbhandari21 Fig.2b].
#include "hwprofiles/topology.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "hwprofiles/hw_profile.h"
#include "planner/core/error.h"

namespace zplan {
namespace {

// From all of these to all of those, whatever they could send.
BytesPerSecond max_flow(const Topology& topology, std::span<const VertexId> from,
                        std::span<const VertexId> to) {
  const auto taps = [](std::span<const VertexId> at) {
    std::vector<Tap> all;
    for (const VertexId id : at) all.push_back({id, {1e15}});
    return all;
  };
  return topology.graph().max_flow(taps(from), taps(to));
}

constexpr double kGB = 1e9;

TopologySpec small_spec() {
  TopologySpec spec;
  spec.sockets = 2;
  spec.switches_per_socket = 1;
  spec.gpus_per_switch = 2;
  spec.nics_per_switch = 1;
  spec.nvme_drives = 2;
  spec.gpu_peer = LinkClass{{100 * kGB}, 0.5};
  spec.gpu_pcie = {{10 * kGB}, 1.0};
  spec.pcie_uplink = {{12 * kGB}, 1.0};
  spec.dram = {{40 * kGB}, 1.0};
  spec.socket_peer = {{20 * kGB}, 1.0};
  spec.nic_pcie = {{10 * kGB}, 1.0};
  spec.nic = {{5 * kGB}, 1.0};
  spec.nvme_read = {{3 * kGB}, 1.0};
  spec.nvme_write = {{1 * kGB}, 1.0};
  return spec;
}

std::vector<std::string> names(const Topology& topology, const std::vector<LinkId>& path) {
  std::vector<std::string> result;
  for (const LinkId id : path) result.push_back(topology.link(id).name);
  return result;
}

std::vector<VertexId> all_gpus(const Topology& topology) {
  std::vector<VertexId> result;
  for (int i = 0; i < topology.gpu_count(); ++i) result.push_back(topology.gpu(i));
  return result;
}

TEST(Topology, EveryVertexIsNamedOnce) {
  const Topology topology(small_spec());
  std::set<std::string> seen;
  for (const Vertex& vertex : topology.vertices()) EXPECT_TRUE(seen.insert(vertex.name).second);
  EXPECT_EQ(seen, (std::set<std::string>{"nvswitch", "fabric", "socket0", "socket1", "dram0",
                                         "dram1", "pcie0", "pcie1", "nic0", "nic1", "gpu0", "gpu1",
                                         "gpu2", "gpu3", "nvme0", "nvme1"}));
  EXPECT_EQ(topology.graph().find("gpu2"), topology.gpu(2));
  EXPECT_EQ(topology.graph().find("gpu9"), std::nullopt);
}

TEST(Topology, EveryLinkHasItsReverse) {
  const Topology topology(small_spec());
  for (const Link& link : topology.links()) {
    const auto reverse = [&](const Link& other) {
      return other.from == link.to && other.to == link.from;
    };
    EXPECT_EQ(std::count_if(topology.links().begin(), topology.links().end(), reverse), 1)
        << link.name;
    EXPECT_GT(link.effective().value, 0) << link.name;
  }
}

TEST(Route, BetweenGpusTakesThePeerLink) {
  const Topology topology(small_spec());
  EXPECT_EQ(names(topology, topology.route(topology.gpu(0), topology.gpu(1))),
            (std::vector<std::string>{"gpu0>nvswitch", "nvswitch>gpu1"}));
}

TEST(Route, WithoutPeerLinkGoesOverPcie) {
  TopologySpec spec = small_spec();
  spec.gpu_peer.reset();
  const Topology topology(spec);
  EXPECT_EQ(names(topology, topology.route(topology.gpu(0), topology.gpu(3))),
            (std::vector<std::string>{"gpu0>pcie0", "pcie0>socket0", "socket0>socket1",
                                      "socket1>pcie1", "pcie1>gpu3"}));
}

TEST(Route, NeverPassesThroughAnEndPoint) {
  const Topology topology(small_spec());
  // Through NVSwitch and another GPU this would be faster; GPUs do not forward.
  EXPECT_EQ(names(topology, topology.route(topology.gpu(0), *topology.graph().find("dram1"))),
            (std::vector<std::string>{"gpu0>pcie0", "pcie0>socket0", "socket0>socket1",
                                      "socket1>dram1"}));
}

TEST(Route, ToTheSameVertexIsEmpty) {
  const Topology topology(small_spec());
  EXPECT_TRUE(topology.route(topology.gpu(1), topology.gpu(1)).empty());
}

TEST(Route, WithoutAPathFails) {
  const Topology topology(small_spec());
  EXPECT_THROW(topology.route(topology.gpu(0), *topology.fabric()), Error);  // NICs do not forward
}

TEST(Route, LeavesAndEntersTheNodeThroughTheNicOfTheGpu) {
  const Topology topology(small_spec());
  ASSERT_EQ(topology.routes_out(3).size(), 1u);
  EXPECT_EQ(names(topology, topology.routes_out(3)[0]),
            (std::vector<std::string>{"gpu3>pcie1", "pcie1>nic1", "nic1>fabric"}));
  ASSERT_EQ(topology.routes_in(0).size(), 1u);
  EXPECT_EQ(names(topology, topology.routes_in(0)[0]),
            (std::vector<std::string>{"fabric>nic0", "nic0>pcie0", "pcie0>gpu0"}));
}

// Returns the numbers of the NICs that a GPU has.
std::vector<int> own_nics(int nics_per_switch, int gpus_per_switch, int gpu) {
  TopologySpec spec = small_spec();
  spec.nics_per_switch = nics_per_switch;
  spec.gpus_per_switch = gpus_per_switch;
  const Topology topology(spec);
  std::vector<int> ordinals;
  for (const VertexId nic : topology.nics_of(gpu)) ordinals.push_back(topology.vertex(nic).ordinal);
  return ordinals;
}

TEST(Nics, OfASwitchAreDealtOutToItsGpus) {
  using Nics = std::vector<int>;
  EXPECT_EQ(own_nics(8, 2, 0), (Nics{0, 1, 2, 3}));
  EXPECT_EQ(own_nics(8, 2, 1), (Nics{4, 5, 6, 7}));
  EXPECT_EQ(own_nics(8, 2, 3), (Nics{12, 13, 14, 15}));
  EXPECT_EQ(own_nics(2, 2, 1), (Nics{1}));
  EXPECT_EQ(own_nics(2, 4, 1), (Nics{0}));  // as many GPUs share one
  EXPECT_EQ(own_nics(2, 4, 2), (Nics{1}));
  EXPECT_EQ(own_nics(3, 2, 0), (Nics{0}));
  EXPECT_EQ(own_nics(3, 2, 1), (Nics{1, 2}));  // none is left over
}

TEST(Route, LeavesThroughEachNicOfTheGpu) {
  TopologySpec spec = small_spec();
  spec.nics_per_switch = 4;
  const Topology topology(spec);
  const auto out = topology.routes_out(1), in = topology.routes_in(1);
  ASSERT_EQ(out.size(), 2u);
  ASSERT_EQ(in.size(), 2u);
  EXPECT_EQ(names(topology, out[0]),
            (std::vector<std::string>{"gpu1>pcie0", "pcie0>nic2", "nic2>fabric"}));
  EXPECT_EQ(names(topology, in[1]),
            (std::vector<std::string>{"fabric>nic3", "nic3>pcie0", "pcie0>gpu1"}));
}

TEST(Route, WithoutNicsThereIsNoWayOut) {
  TopologySpec spec = small_spec();
  spec.nics_per_switch = 0;
  const Topology topology(spec);
  EXPECT_EQ(topology.fabric(), std::nullopt);
  EXPECT_TRUE(topology.nics_of(0).empty());
  EXPECT_THROW(topology.routes_out(0), Error);
  EXPECT_THROW(topology.routes_in(0), Error);
}

TEST(Route, ReadingADriveUsesItsReadRate) {
  const Topology topology(small_spec());
  const auto read = topology.route(topology.nvme_drives()[0], topology.dram_of(0));
  const auto write = topology.route(topology.dram_of(0), topology.nvme_drives()[0]);
  EXPECT_EQ(topology.link(read.front()).capacity, BytesPerSecond{3 * kGB});
  EXPECT_EQ(topology.link(write.back()).capacity, BytesPerSecond{1 * kGB});
}

TEST(Bisection, CountsPeerLinksOfHalfTheGpus) {
  TopologySpec spec = small_spec();
  spec.gpu_peer.reset();
  EXPECT_EQ(Topology(spec).bisection(), BytesPerSecond{12 * kGB});  // one PCIe uplink
  spec.gpu_peer = LinkClass{{100 * kGB}, 0.5};
  EXPECT_EQ(Topology(spec).bisection(), BytesPerSecond{112 * kGB});
}

TEST(Bisection, OfOneGpuIsZero) {
  TopologySpec spec = small_spec();
  spec.sockets = 1;
  spec.gpus_per_switch = 1;
  EXPECT_EQ(Topology(spec).bisection(), BytesPerSecond{0});
}

class Dgx2 : public testing::Test {
 protected:
  const Topology topology{load_cluster("dgx2").node.topology};
};

TEST_F(Dgx2, HasItsParts) {
  EXPECT_EQ(topology.gpu_count(), 16);
  EXPECT_EQ(topology.nics().size(), 8u);
  EXPECT_EQ(topology.nvme_drives().size(), 8u);
  EXPECT_EQ(topology.drams().size(), 2u);
  EXPECT_EQ(topology.vertex(topology.dram_of(0)).name, "dram0");
  EXPECT_EQ(topology.vertex(topology.dram_of(15)).name, "dram1");
  EXPECT_EQ(topology.vertex(topology.socket_of(8)).name, "socket1");
}

TEST_F(Dgx2, OneGpuReadsHostMemoryAtTwelveGigabytes) {
  const VertexId gpu = topology.gpu(5), dram = topology.dram_of(5);
  EXPECT_EQ(max_flow(topology, {&dram, 1}, {&gpu, 1}), BytesPerSecond{12 * kGB});
}

TEST_F(Dgx2, SixteenGpusShareFortyEight) {
  EXPECT_EQ(max_flow(topology, topology.drams(), all_gpus(topology)), BytesPerSecond{48 * kGB});
  EXPECT_EQ(max_flow(topology, all_gpus(topology), topology.drams()), BytesPerSecond{48 * kGB});
}

TEST_F(Dgx2, FourGpusOfASwitchShareItsUplink) {
  const std::vector<VertexId> gpus = all_gpus(topology);
  const std::span<const VertexId> first(gpus.data(), 4);
  EXPECT_EQ(max_flow(topology, topology.drams(), first), BytesPerSecond{12 * kGB});
}

TEST_F(Dgx2, SixteenGpusReadTheDrivesAtOnePointSixEach) {
  const double total = max_flow(topology, topology.nvme_drives(), all_gpus(topology)).value;
  EXPECT_NEAR(total / 16, 1.6 * kGB, 1);
}

TEST_F(Dgx2, DrivesFeedHostMemoryAtTwentyFivePointSix) {
  EXPECT_NEAR(max_flow(topology, topology.nvme_drives(), topology.drams()).value, 25.6 * kGB, 1);
}

TEST_F(Dgx2, NicsAreSpreadEvenlyOverGpus) {
  std::vector<int> users(topology.nics().size());
  for (int gpu = 0; gpu < topology.gpu_count(); ++gpu) {
    for (const VertexId nic : topology.nics_of(gpu))
      ++users[static_cast<std::size_t>(topology.vertex(nic).ordinal)];
  }
  EXPECT_EQ(users, std::vector<int>(8, 2));
}

TEST(Catalogue, EveryGpuReachesEveryOtherVertex) {
  for (const HwProfile& node : node_catalogue()) {
    const Topology topology(node.topology);
    for (int gpu = 0; gpu < topology.gpu_count(); ++gpu) {
      for (const VertexId peer : all_gpus(topology)) {
        EXPECT_EQ(topology.route(topology.gpu(gpu), peer).empty(), peer == topology.gpu(gpu));
      }
      for (const VertexId drive : topology.nvme_drives()) {
        EXPECT_FALSE(topology.route(drive, topology.gpu(gpu)).empty());
      }
      if (topology.nics_of(gpu).empty()) continue;
      EXPECT_EQ(topology.routes_out(gpu).size(), topology.routes_in(gpu).size());
    }
  }
}

}  // namespace
}  // namespace zplan
