#include "planner/cost/chunks.h"

#include <gtest/gtest.h>

#include <cmath>

namespace zplan {
namespace {

constexpr double kKib = 1024, kMib = 1024 * kKib;
constexpr int kChannels = 16;

double of_tree(Protocol protocol, double bytes, int nodes = 2, int in_node = 8) {
  return tree_chunks(protocol, bytes, nodes, in_node, kChannels);
}

TEST(Chunks, ASmallBufferIsInOneStageAsAWhole) {
  for (const Protocol protocol : {Protocol::kLow, Protocol::kLine, Protocol::kSimple})
    EXPECT_EQ(of_tree(protocol, 8 * kKib), 8 * kKib);
  EXPECT_EQ(nvls_chunks(8 * kKib, 2, 8, kChannels), 8 * kKib);
}

TEST(Chunks, OfALargeOneEachChannelHasOne) {
  EXPECT_EQ(of_tree(Protocol::kLow, 1024 * kMib), 16 * 32 * kKib);
  EXPECT_EQ(of_tree(Protocol::kLine, 1024 * kMib), 16 * 562.5 * kKib);
  EXPECT_EQ(of_tree(Protocol::kSimple, 1024 * kMib), 16 * 512 * kKib);
}

// [NCCL] 1 + log2(2) + 0.8 = 2.8 stages: at least 2.8 x 16 / 8, rounded up 6, chunks of a channel;
// above 128 KiB 23.
TEST(Chunks, ThoseOfLinesAreHalvedUntilAChannelHasEnough) {
  const double chunk = 562.5 * kKib;
  EXPECT_EQ(of_tree(Protocol::kLine, 16 * 23 * chunk), 16 * chunk);
  EXPECT_EQ(of_tree(Protocol::kLine, 16 * 22 * chunk), 16 * chunk / 2);
  EXPECT_EQ(of_tree(Protocol::kLine, 16 * 6 * chunk / 8), 16 * chunk / 8);
  EXPECT_EQ(of_tree(Protocol::kLine, 16 * 5 * chunk / 8), 16 * chunk / 16);
  EXPECT_EQ(of_tree(Protocol::kLine, 16 * chunk / 16), 16 * chunk / 32) << "the smallest";
}

TEST(Chunks, OfSwitchesEachGpuOfANodeHasThem) {
  constexpr double kAtOnce = 8 * kChannels;
  EXPECT_EQ(nvls_chunks(1024 * kMib, 2, 8, kChannels), kAtOnce * 128 * kKib);
  EXPECT_EQ(nvls_chunks(1024 * kMib, 4, 8, kChannels), kAtOnce * 64 * kKib) << "four nodes";
  EXPECT_EQ(nvls_chunks(1024 * kMib, 2, 16, kChannels), 2 * kAtOnce * 64 * kKib);
  EXPECT_EQ(nvls_chunks(1024 * kMib, 2, 72, kChannels), 32 * kChannels * 64 * kKib) << "at most 32";
}

TEST(Chunks, OfSwitchesTheyAreHalvedOfSmallBuffers) {
  constexpr double kAtOnce = 8 * kChannels;
  const auto chunk = [](double bytes) { return nvls_chunks(bytes, 2, 8, kChannels) / kAtOnce; };
  EXPECT_EQ(chunk(4 * kAtOnce * 128 * kKib), 128 * kKib);
  EXPECT_EQ(chunk(4 * kAtOnce * 128 * kKib - 1), 64 * kKib);
  EXPECT_EQ(chunk(kAtOnce * 64 * kKib), 64 * kKib);
  EXPECT_EQ(chunk(kAtOnce * 64 * kKib - 1), 32 * kKib);
}

TEST(Chunks, GrowWithTheBuffer) {
  for (const Protocol protocol : {Protocol::kLow, Protocol::kLine, Protocol::kSimple}) {
    double before = 0;
    for (double bytes = kKib; bytes < 1e11; bytes *= 1.3) {
      const double now = of_tree(protocol, bytes);
      EXPECT_GE(now, before) << bytes;
      before = now;
    }
  }
}

}  // namespace
}  // namespace zplan
