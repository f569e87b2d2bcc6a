#include "hwprofiles/seating.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/error_message.h"

namespace zplan {
namespace {

using testing::ElementsAre;
using testing_support::message_of;

TEST(Seating, FillsNodesInOrder) {
  const Seating seating(load_cluster("dgx2x2"));
  EXPECT_EQ(seating.per_node(), 16);
  EXPECT_EQ(seating.node_of(15), 0);
  EXPECT_EQ(seating.node_of(16), 1);
  EXPECT_EQ(seating.device_of(17), 1);
  EXPECT_EQ(seating.island_of(17), 1);
}

TEST(Seating, TakesTheNamedDevicesOfEachNode) {
  const Seating seating(load_cluster("dgx2x2"), {12, 3});
  EXPECT_EQ(seating.devices(), 4);
  EXPECT_EQ(seating.node_of(1), 0);
  EXPECT_EQ(seating.node_of(2), 1);
  EXPECT_EQ(seating.device_of(2), 12);
  EXPECT_EQ(seating.device_of(3), 3);
}

TEST(Seating, CountsDomainsOfFastLinksByDevice) {
  Cluster pairs = load_cluster("dgx2");
  pairs.fast_link_domain = 2;
  const Seating seating(pairs, {0, 2, 3});
  EXPECT_NE(seating.domain_of(0), seating.domain_of(1));
  EXPECT_EQ(seating.domain_of(1), seating.domain_of(2));
}

TEST(Seating, RefusesADeviceThatNoNodeHas) {
  EXPECT_EQ(message_of([] {
              Seating(load_cluster("dgx2"), {0, 16});
            }),
            "there is no GPU 16 in a node of dgx2: expected 0 to 15");
}

TEST(SpreadDevices, SharesNoSwitchWhileThereAreOthers) {
  const TopologySpec node = load_cluster("dgx2").node.topology;
  EXPECT_THAT(spread_devices(node, 2), ElementsAre(0, 8));
  EXPECT_THAT(spread_devices(node, 4), ElementsAre(0, 4, 8, 12));
  EXPECT_THAT(spread_devices(node, 5), ElementsAre(0, 1, 4, 8, 12));
  EXPECT_EQ(spread_devices(node, 99).size(), 16U);
}

}  // namespace
}  // namespace zplan
