// Rings over peer links that do not lead everywhere.
#include "hwprofiles/peer_shape.h"

#include <gtest/gtest.h>

#include <vector>

#include "tests/support/error_message.h"

namespace zplan {
namespace {

constexpr PeerShape kCube{.kind = PeerKind::kCubeMesh};

double share(const PeerShape& shape, const std::vector<int>& gpus) {
  return ring_share(shape, gpus);
}

PeerShape read(const std::string& text, int gpus) {
  return read_peer_shape(parse_json(text, "n.json"), gpus);
}

TEST(PeerShape, AnyGpuOfACubeMeshHasSixLinksAndTheyLeadBothWays) {
  for (int a = 0; a < 8; ++a) {
    int links = 0;
    for (int b = 0; b < 8; ++b) {
      links += kCube.between(a, b);
      EXPECT_EQ(kCube.between(a, b), kCube.between(b, a));
    }
    EXPECT_EQ(links, kCube.links());
  }
}

TEST(PeerShape, ARingOfACubeMeshGetsAllLinksOfAllEightTwoThirdsOfAHalfAndThoseOfAPair) {
  EXPECT_EQ(share(kCube, {0, 1, 2, 3, 4, 5, 6, 7}), 1);
  EXPECT_DOUBLE_EQ(share(kCube, {0, 1, 2, 3}), 4.0 / 6);
  EXPECT_DOUBLE_EQ(share(kCube, {0, 3}), 2.0 / 6);
  EXPECT_DOUBLE_EQ(share(kCube, {0, 1}), 1.0 / 6);
  EXPECT_EQ(share(kCube, {0, 5}), 0) << "no link";
  EXPECT_EQ(share(kCube, {0, 3, 5, 6}), 0) << "two pairs apart";
}

TEST(PeerShape, ARingOfATorusGetsHalfOnARowAndAQuarterOnAnOpenOne) {
  const PeerShape torus{PeerKind::kTorus, 2, 4};
  EXPECT_EQ(share(torus, {0, 1, 2, 3, 4, 5, 6, 7}), 1);
  EXPECT_EQ(share(torus, {0, 1, 2, 3}), 0.5);
  EXPECT_EQ(share(torus, {0, 1, 2}), 0.25);
  EXPECT_EQ(share(torus, {0, 4}), 0.5) << "both links of a dimension of two";
  EXPECT_EQ(share(torus, {0, 5}), 0);
  EXPECT_EQ(share({PeerKind::kTorus, 1, 8}, {0, 1, 2, 3, 4, 5, 6, 7}), 1) << "a closed ring";
}

// GPUs 0 and 3, and 6 and 7, have one link between them, whatever each of the four has.
TEST(PeerShape, ARingCrossesTheNarrowestCutOfItsGpus) {
  EXPECT_DOUBLE_EQ(share(kCube, {0, 3, 6, 7}), 1.0 / 6);
  EXPECT_EQ(share({PeerKind::kTorus, 2, 4}, {0, 1, 4, 5}), 0.5) << "a block of four";
}

TEST(PeerShape, ASwitchLeadsEverywhere) { EXPECT_EQ(share({}, {0, 5, 7}), 1); }

TEST(PeerShape, IsReadWithTheNodesSize) {
  EXPECT_EQ(read("\"switch\"", 3).kind, PeerKind::kSwitch);
  EXPECT_EQ(read("\"cube_mesh\"", 8).kind, PeerKind::kCubeMesh);
  EXPECT_EQ(read("[4, 4]", 16).rows, 4);
  EXPECT_EQ(testing_support::message_of([] { read("\"cube_mesh\"", 16); }),
            "n.json:1:1: /: expected 8 GPUs in a node whose peer links form a cube mesh, got 16");
  EXPECT_EQ(testing_support::message_of([] { read("[3, 2]", 8); }),
            "n.json:1:1: /: expected a torus of the node's 8 GPUs, got 3 x 2");
}

}  // namespace
}  // namespace zplan
